"""Names for the kinds of tensors and layer functions that travel between the rooms, and the most exact of types."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Weights by name: `hidden0.weight`, `head.bias`.
Params = dict[str, Tensor]
# What a layer does with its weights: `op(x, weight, bias)`, linear in the weights; an embedding has no bias.
Op = Callable[[Tensor, Tensor, Tensor | None], Tensor]
# How a layer finds its weights: `layer(name, op, x)`.
Layer = Callable[[str, Op, Tensor], Tensor]

# Devices that have no float64: Apple's GPUs.
COARSE = {"mps"}


def exact_device(device: torch.device) -> torch.device:
    """Where float64 is to be had: the device itself, or the host."""
    return torch.device("cpu") if device.type in COARSE else device


def exact(x: Tensor) -> Tensor:
    """The same numbers in float64, on the host where the device has no such type."""
    return x.to(exact_device(x.device)).to(torch.float64)
