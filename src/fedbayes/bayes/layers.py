"""What a weighted layer does with its input: a network only says where its layers are.

A network calls `layer(name, op, x)` for each weighted layer; `op(x, weight, bias)` is linear in the weights (a linear
map, a convolution, an embedding). Plain weights, sampled weights, local reparameterisation or masks are then functions
of this module, and no network is written twice.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedbayes.tensors import Layer, Op, Params

# Keeps the square root's gradient finite where all inputs of an output are 0 (FedUAB's code has the same number).
SMALLEST_VARIANCE = 1e-16


def plain(weights: Params) -> Layer:
    """Layers with the given weights: the ordinary network."""

    def layer(name: str, op: Op, x: Tensor) -> Tensor:
        return op(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    return layer


def reparameterised(mu: Params, sigma: Params, noise: Callable[[str, Tensor], Tensor]) -> Layer:
    r"""Layers whose outputs are drawn, not their weights: the local reparameterisation of Kingma et al. 2015.

    For weights $N(\mu, \sigma^2)$ an output is $N(op(x, \mu), op(x^2, \sigma^2))$, and every output of every sample is
    drawn apart from the others: the same marginal law as with drawn weights, with less noise in the gradient. A table
    of word vectors is drawn as a whole, because each of its outputs is one of its weights.

    Args:
        mu: means by weight.
        sigma: standard deviations by weight.
        noise: standard normal numbers in the shape of a tensor, for a layer by name.
    """

    def layer(name: str, op: Op, x: Tensor) -> Tensor:
        weight, bias = f"{name}.weight", f"{name}.bias"
        if not x.is_floating_point():
            return op(x, mu[weight] + sigma[weight] * noise(name, mu[weight]), None)
        mean = op(x, mu[weight], mu.get(bias))
        variance = op(x**2, sigma[weight] ** 2, sigma[bias] ** 2 if bias in sigma else None)
        return mean + torch.sqrt(SMALLEST_VARIANCE + variance) * noise(name, mean)

    return layer
