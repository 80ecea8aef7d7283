"""Gradients that are too long, scaled down as torch.nn.utils.clip_grad_norm_ does."""

from __future__ import annotations

from typing import TypeVar

import torch

from fedbayes.federation import trees

# Keeps the quotient finite where a gradient is 0; torch has the same number.
SMALLEST_NORM = 1e-6
T = TypeVar("T")


def clipped(grads: T, bound: float) -> T:
    """A gradient scaled down to a norm, over all its tensors, where it is longer."""
    norm = torch.stack([leaf.square().sum() for leaf in trees.leaves(grads)]).sum().sqrt()
    scale = (bound / (norm + SMALLEST_NORM)).clamp_max(1)
    return trees.each(lambda leaf: scale * leaf, grads)
