"""Convolutional network: 3x3 convolutions without padding, 2x2 max-pooling between them, then a perceptron.

Channels (32, 32, 32) and hidden (64,) on 3x32x32 images is the network of FedUAB on CIFAR-10: 52,874 weights.
"""

from __future__ import annotations

import itertools

import torch
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from fedbayes.config import NetworkConfig
from fedbayes.models.network import Network, uniform_linear
from fedbayes.reading import ConfigError
from fedbayes.tensors import Layer, Params

KERNEL, POOL = 3, 2


class Config(NetworkConfig):
    """Channels of the convolutions and sizes of the hidden layers behind them."""

    channels: tuple[PositiveInt, ...] = Field(
        strict=False, min_length=1, description="Channels each 3x3 convolution gives, input side first."
    )
    hidden: tuple[PositiveInt, ...] = Field(strict=False, description="Units of each dense layer before the head.")


def build(config: Config, shape: tuple[int, ...], classes: int) -> Network:
    """The network for images of `shape` (channels, height, width)."""
    channels = [shape[0], *config.channels]
    height, width = (_side_after(side, len(config.channels)) for side in shape[1:])
    sizes = [channels[-1] * height * width, *config.hidden, classes]
    convolutions = [f"conv{i}" for i in range(len(config.channels))]
    dense = [f"hidden{i}" for i in range(len(config.hidden))] + ["head"]

    def init(stream: torch.Generator) -> Params:
        params: Params = {}
        for name, (before, after) in zip(convolutions, itertools.pairwise(channels), strict=True):
            # The default of `torch.nn.Conv2d` is that of a linear map on one patch.
            weight, bias = uniform_linear(before * KERNEL**2, after, stream)
            params |= {f"{name}.weight": weight.view(after, before, KERNEL, KERNEL), f"{name}.bias": bias}
        for name, (fan_in, fan_out) in zip(dense, itertools.pairwise(sizes), strict=True):
            params[f"{name}.weight"], params[f"{name}.bias"] = uniform_linear(fan_in, fan_out, stream)
        return params

    def apply(layer: Layer, x: Tensor) -> Tensor:
        x = channels_last(x)
        for name in convolutions[:-1]:
            # Pooling first: it commutes with ReLU, to the bit and in its gradient, and leaves a quarter of the numbers.
            x = F.relu(F.max_pool2d(layer(name, F.conv2d, x), POOL))
        x = F.relu(layer(convolutions[-1], F.conv2d, x).flatten(1))
        for name in dense[:-1]:
            x = F.relu(layer(name, F.linear, x))
        return layer(dense[-1], F.linear, x)

    return Network(init, apply, (*convolutions, *dense), "conv")


def channels_last(x: Tensor) -> Tensor:
    """The same images with the channels of a pixel side by side in memory, where the CPU convolves faster.

    Written with permutations, because vmap knows no memory formats. Convolution, ReLU and pooling keep the layout.
    """
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def _side_after(side: int, convolutions: int) -> int:
    """Height or width behind the last convolution."""
    left = side
    for i in range(convolutions):
        left = (left // POOL if i else left) - KERNEL + 1
    if left < 1:
        raise ConfigError(f"network cnn: channels: {convolutions} convolutions do not fit images {side} pixels wide")
    return left
