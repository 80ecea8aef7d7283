r"""What several draws predict together, and where its uncertainty comes from (Kwon et al. 2018; FedUAB, Eq. 12).

With $p_z$ the class probabilities of draw $z$ and $\bar p$ their mean, the covariance of the one-hot label is
$\frac1Z \sum_z [\mathrm{diag}(p_z) - p_z p_z^T] + \frac1Z \sum_z (p_z - \bar p)(p_z - \bar p)^T$: *aleatoric*, what
every draw finds uncertain, and *epistemic*, what the draws disagree about.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Uncertainty(NamedTuple):
    """The two matrices `[sample, class, class]`."""

    aleatoric: Tensor
    epistemic: Tensor


class Summary(NamedTuple):
    """A matrix in one number a sample, `[sample]` each."""

    trace: Tensor  # the variance summed over classes
    predicted: Tensor  # the entry of the class that is predicted


def predictive(probs: Tensor, draws: int = 0) -> Tensor:
    """The mean of the draws' class probabilities, which is what a Bayesian network predicts; `draws` is their axis."""
    return probs.mean(draws)


def decompose(probs: Tensor) -> Uncertainty:
    """Both matrices from the probabilities `[draw, sample, class]` of some draws."""
    outer = probs.unsqueeze(-1) * probs.unsqueeze(-2)
    gap = probs - predictive(probs)
    return Uncertainty((torch.diag_embed(probs) - outer).mean(0), (gap.unsqueeze(-1) * gap.unsqueeze(-2)).mean(0))


# Columns of `split_up`.
PARTS = ("aleatoric-trace", "aleatoric-predicted", "epistemic-trace", "epistemic-predicted")


def split_up(probs: Tensor) -> Tensor:
    """Both matrices in numbers, `[sample, part]` by `PARTS`, from the probabilities `[draw, sample, class]`.

    Their diagonals are enough for that, which are all of them that fits into memory for many samples and classes.
    """
    mean = predictive(probs)
    diagonals = predictive(probs - probs**2), predictive((probs - mean) ** 2)
    return torch.stack([number for diagonal in diagonals for number in _numbers(diagonal, mean)], -1)


def summarise(matrix: Tensor, probs: Tensor) -> Summary:
    """Trace and predicted-class entry of a matrix `[sample, class, class]`; `probs` `[draw, sample, class]`."""
    return _numbers(matrix.diagonal(dim1=-2, dim2=-1), predictive(probs))


def _numbers(diagonal: Tensor, mean: Tensor) -> Summary:
    top = mean.argmax(-1, keepdim=True)
    return Summary(diagonal.sum(-1), diagonal.gather(-1, top).squeeze(-1))
