"""Whether predicted probabilities are what they say: confidence against accuracy in bins (Guo et al. 2017).

For all groups of samples at once, such as clients; in float64, whatever the network ran in.
"""

from __future__ import annotations

import torch
from torch import Tensor


def group_mean(values: Tensor, groups: Tensor, count: int) -> Tensor:
    """Mean of the values of each group."""
    return _sums(values, groups, count) / _sums(torch.ones_like(values), groups, count)


def _sums(values: Tensor, groups: Tensor, count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.float64, device=values.device).index_add_(0, groups, values.double())


def calibration_gaps(probs: Tensor, labels: Tensor, groups: Tensor, count: int, bins: int) -> tuple[Tensor, Tensor]:
    """|accuracy - confidence| `[group, bin]` (0 for an empty bin) and the share of samples in each bin."""
    confidence, top = probs.double().max(1)
    place = groups * bins + (confidence * bins).ceil().long().clamp(1, bins) - 1
    inside = _sums(torch.ones_like(confidence), place, count * bins).reshape(count, bins)
    right = _sums((top == labels).double(), place, count * bins).reshape(count, bins)
    trusted = _sums(confidence, place, count * bins).reshape(count, bins)
    gaps = (right - trusted).abs() / inside.clamp_min(1)
    return gaps, inside / inside.sum(1, keepdim=True)
