r"""The server's average: $\sum_i p_i w_i$ with $p_i = n_i / n$ or $1 / S$ over the $S$ clients that uploaded."""

from __future__ import annotations

from typing import Literal, TypeVar

import torch
from torch import Tensor

from fedbayes.federation import trees
from fedbayes.federation.contract import Cohort

Weighting = Literal["samples", "uniform"]
T = TypeVar("T")


def shares(cohort: Cohort, weighting: Weighting, dtype: torch.dtype) -> Tensor:
    """The weights p_i of the clients of a cohort; they sum to 1."""
    sizes = cohort.sizes if weighting == "samples" else torch.ones_like(cohort.sizes)
    return sizes.to(dtype) / sizes.sum()


def moved_towards(old: T, new: T, share: float) -> T:
    r"""$(1 - \beta)\, old + \beta\, new$ for each tensor of a tree: a server that takes a part of its new estimate."""
    return trees.each(lambda a, b: (1 - share) * a + share * b, old, new)


def weighted_mean(stacked: T, weights: Tensor) -> T:
    """The mean over the first axis of a stacked tree; `weights` sum to 1."""
    return trees.each(lambda leaf: torch.tensordot(weights.to(leaf.dtype), leaf, dims=1), stacked)
