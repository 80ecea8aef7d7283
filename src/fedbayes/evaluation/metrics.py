r"""Metrics of predicted probabilities, for all groups of samples (clients, or everything pooled) at once.

Each metric is a function `(probs [n, K], labels [n], groups [n], count) -> [count]`: the value for each group, NaN for
an empty one. They are computed in float64, whatever the network ran in.

- accuracy: share of samples whose most probable class is the label
- nll: mean $-\log p(y)$, with p bounded below by 1e-12
- brier: mean $\sum_k (p_k - [y = k])^2$, between 0 and 2
- ece10, ece15: $\sum_b \frac{n_b}{n} |acc_b - conf_b|$ over 10 or 15 equal bins $(0, 1/B], ...$ of the top probability
- mce10, mce15: the largest $|acc_b - conf_b|$ of the non-empty bins
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedbayes.bayes.calibration import calibration_gaps, group_mean

Metric = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def accuracy(probs: Tensor, labels: Tensor, groups: Tensor, count: int) -> Tensor:
    """Share of right answers."""
    return group_mean((probs.argmax(1) == labels).double(), groups, count)


def nll(probs: Tensor, labels: Tensor, groups: Tensor, count: int) -> Tensor:
    """Mean negative log-likelihood of the labels."""
    right = probs.double().gather(1, labels[:, None]).squeeze(1)
    return group_mean(-right.clamp_min(1e-12).log(), groups, count)


def brier(probs: Tensor, labels: Tensor, groups: Tensor, count: int) -> Tensor:
    """Mean squared distance of the probabilities from the label's corner of the simplex."""
    p = probs.double()
    right = p.gather(1, labels[:, None]).squeeze(1)
    return group_mean((p * p).sum(1) - 2 * right + 1, groups, count)


def expected_calibration_error(bins: int) -> Metric:
    """ECE with a number of bins."""

    def metric(probs: Tensor, labels: Tensor, groups: Tensor, count: int) -> Tensor:
        gaps, shares = calibration_gaps(probs, labels, groups, count, bins)
        return (gaps * shares).sum(1)

    return metric


def maximum_calibration_error(bins: int) -> Metric:
    """MCE with a number of bins."""

    def metric(probs: Tensor, labels: Tensor, groups: Tensor, count: int) -> Tensor:
        gaps, shares = calibration_gaps(probs, labels, groups, count, bins)
        return torch.where(shares.isnan().any(1), torch.nan, gaps.max(1).values)

    return metric


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "nll": nll,
    "brier": brier,
    "ece10": expected_calibration_error(10),
    "ece15": expected_calibration_error(15),
    "mce10": maximum_calibration_error(10),
    "mce15": maximum_calibration_error(15),
}

# Of these metrics more is better; the worst client is the smallest value, of all others the largest.
HIGHER_IS_BETTER = frozenset({"accuracy"})
