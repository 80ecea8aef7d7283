"""What a weighted layer does with its input: a network only says where its layers are.

A network calls `layer(name, op, x)` for each weighted layer; `op(x, weight, bias)` is linear in the weights (a linear
map, a convolution, an embedding). Plain weights, sampled weights, local reparameterisation or masks are then functions
of this module, and no network is written twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

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


class LowRank(NamedTuple):
    """A mask of rank r over a layer's inputs and outputs: $M = L R^T$."""

    left: Tensor  # [output, rank]
    right: Tensor  # [input, rank]


def masked(weights: Params, masks: dict[str, LowRank]) -> Layer:
    r"""Layers whose weights are multiplied entry by entry by a mask, $W \circ L R^T$; biases are not.

    A convolution's mask has one entry for each pair of channels, the same at all places of the kernel.
    """

    def layer(name: str, op: Op, x: Tensor) -> Tensor:
        weight, bias, mask = weights[f"{name}.weight"], weights.get(f"{name}.bias"), masks[name]
        if x.is_floating_point() and cheaper_by_rank(x, weight, mask):
            return by_rank(op, x, weight, bias, mask)
        full = (mask.left @ mask.right.T).reshape(*weight.shape[:2], *[1] * (weight.dim() - 2))
        return op(x, weight * full, bias)

    return layer


def by_rank(op: Op, x: Tensor, weight: Tensor, bias: Tensor | None, mask: LowRank) -> Tensor:
    r"""The same without the mask: $(W \circ L R^T) x = \sum_i l_i \circ (W (r_i \circ x))$."""
    # Channels are a linear layer's last axis and a convolution's second one.
    behind = [1] * (0 if weight.dim() == 2 else x.dim() - 2)
    terms = [
        left.reshape(-1, *behind) * op(x * right.reshape(-1, *behind), weight, None)
        for left, right in zip(mask.left.unbind(1), mask.right.unbind(1), strict=True)
    ]
    total = torch.stack(terms).sum(0)
    return total if bias is None else total + bias.reshape(-1, *behind)


def cheaper_by_rank(x: Tensor, weight: Tensor, mask: LowRank) -> bool:
    r"""Whether `by_rank` takes fewer multiplications than the mask and one application of the layer.

    With $m$ outputs, $n$ inputs and $P$ places that a kernel of size $k$ is applied at: rank by rank
    $r P (m n k + m + n)$, with the mask $r m n + m n k + P m n k$. So for rank one and large layers, or hardly any
    samples.
    """
    outputs, inputs, *size = weight.shape
    rank, kernel = mask.left.shape[1], math.prod(size)
    # A linear layer is applied at each vector, a convolution (nearly) at each pixel. Kernels over words are as wide as
    # the words' vectors, whose entries are no places.
    wide = inputs * (size[-1] if len(size) == 2 and x.dim() == 3 else 1)
    places = x.numel() // wide
    pairs = outputs * inputs
    return rank * places * (pairs * kernel + outputs + inputs) < rank * pairs + pairs * kernel * (1 + places)
