"""Multi-layer perceptron with ReLU.

784-100-10 is the network of pFedBayes and BPFed on MNIST and Fashion-MNIST: 79,510 weights. (The appendix of pFedBayes
counts "3 full connection layers"; the printed sizes and the public code have one hidden layer.)
"""

from __future__ import annotations

import itertools
import math

import torch
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from fedbayes.config import NetworkConfig
from fedbayes.models.network import Network, uniform_linear
from fedbayes.tensors import Layer, Params


class Config(NetworkConfig):
    """Sizes of the hidden layers."""

    hidden: tuple[PositiveInt, ...] = Field(strict=False, description="Units of each hidden layer, input side first.")


def build(config: Config, shape: tuple[int, ...], classes: int) -> Network:
    """The perceptron for samples of `shape`, which are flattened."""
    sizes = [math.prod(shape), *config.hidden, classes]
    names = [f"hidden{i}" for i in range(len(config.hidden))] + ["head"]

    def init(stream: torch.Generator) -> Params:
        params: Params = {}
        for name, (fan_in, fan_out) in zip(names, itertools.pairwise(sizes), strict=True):
            params[f"{name}.weight"], params[f"{name}.bias"] = uniform_linear(fan_in, fan_out, stream)
        return params

    def apply(layer: Layer, x: Tensor) -> Tensor:
        x = x.flatten(1)
        for name in names[:-1]:
            x = F.relu(layer(name, F.linear, x))
        return layer(names[-1], F.linear, x)

    return Network(init, apply, tuple(names), "dense")
