"""What a network is: an initialiser and a forward pass that leaves its weighted layers open."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fedbayes.tensors import Layer, Params


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of a classifier, one number a sample."""
    return F.cross_entropy(logits, labels, reduction="none")


class Network(NamedTuple):
    """A network for one input shape and one number of classes."""

    init: Callable[[torch.Generator], Params]  # initial weights, float32
    apply: Callable[[Layer, Tensor], Tensor]  # inputs [batch, ...] to logits [batch, class]
    layers: tuple[str, ...]  # weighted layers, input side first; the last one is the head
    kind: Literal["dense", "conv", "recurrent"]  # decides how clients are lifted on the CPU
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy  # what `apply` gives and labels to losses [batch]
    reduction: Literal["mean", "sum"] = "mean"  # how the losses of a batch are put together
    parallel: tuple[str, ...] = ()  # layers that stand side by side, and so are on one level


def levels(network: Network) -> dict[str, int]:
    """How deep each layer is, counted from 0 at the input; layers side by side are equally deep."""
    found: dict[str, int] = {}
    for layer in network.layers:
        beside = [found[other] for other in network.parallel if other in found and layer in network.parallel]
        found[layer] = beside[0] if beside else 1 + max(found.values(), default=-1)
    return found


def uniform_linear(
    fan_in: int, fan_out: int, stream: torch.Generator, bound_by: int | None = None
) -> tuple[Tensor, Tensor]:
    """Weight and bias from U(-1/sqrt(n), 1/sqrt(n)): n is `fan_in`, as `torch.nn.Linear` has it, or `bound_by`."""
    bound = 1.0 / math.sqrt(bound_by or fan_in)
    weight = torch.empty(fan_out, fan_in).uniform_(-bound, bound, generator=stream)
    return weight, torch.empty(fan_out).uniform_(-bound, bound, generator=stream)
