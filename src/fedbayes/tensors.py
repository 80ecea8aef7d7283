"""Names for the kinds of tensors and layer functions that travel between the rooms."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

# Weights by name: `hidden0.weight`, `head.bias`.
Params = dict[str, Tensor]
# What a layer does with its weights: `op(x, weight, bias)`, linear in the weights; an embedding has no bias.
Op = Callable[[Tensor, Tensor, Tensor | None], Tensor]
# How a layer finds its weights: `layer(name, op, x)`.
Layer = Callable[[str, Op, Tensor], Tensor]
