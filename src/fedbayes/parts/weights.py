"""A network with plain weights: its loss on a batch, its predictions, and the record of losses along a visit."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fedbayes.bayes.layers import plain
from fedbayes.federation.contract import Batch, Facts
from fedbayes.models.network import Network
from fedbayes.tensors import Params


def batch_loss(weights: Params, network: Network, batch: Batch) -> Tensor:
    """The network's loss over the real samples of a batch: their mean, or their sum where the network says so."""
    losses = network.loss(network.apply(plain(weights), batch.x), batch.y)
    total = (losses * batch.mask).sum()
    return total if network.reduction == "sum" else total / batch.mask.sum().clamp_min(1)


def probabilities(network: Network, weights: Params, x: Tensor) -> Tensor:
    """What the contract's `predict` gives for plain weights: one draw of class probabilities, `[1, sample, class]`."""
    return F.softmax(network.apply(plain(weights), x), dim=-1).unsqueeze(0)


class Meter(NamedTuple):
    """Losses of the steps of a visit: their sum and their number."""

    loss: Tensor
    steps: Tensor

    def add(self, loss: Tensor) -> Meter:
        """With one step more."""
        return Meter(self.loss + loss, self.steps + 1)

    def info(self) -> dict[str, Tensor]:
        """What a visit reports: the mean loss of its steps."""
        return {"loss": self.loss / self.steps.clamp_min(1)}


def new_meter(facts: Facts, dtype: torch.dtype) -> Meter:
    """Before the first step."""
    return Meter(torch.zeros((), dtype=dtype, device=facts.size.device), torch.zeros_like(facts.size))


def dtype_of(weights: Params) -> torch.dtype:
    """The type of a network's weights."""
    return next(iter(weights.values())).dtype
