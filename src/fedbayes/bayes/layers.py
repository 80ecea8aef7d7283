"""What a weighted layer does with its input: a network only says where its layers are.

A network calls `layer(name, op, x)` for each weighted layer; `op(x, weight, bias)` is linear in the weights (a linear
map, a convolution, an embedding). Plain weights, sampled weights, local reparameterisation or masks are then functions
of this module, and no network is written twice.
"""

from __future__ import annotations

from torch import Tensor

from fedbayes.tensors import Layer, Op, Params


def plain(weights: Params) -> Layer:
    """Layers with the given weights: the ordinary network."""

    def layer(name: str, op: Op, x: Tensor) -> Tensor:
        return op(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    return layer
