"""Convolutional network: convolutions with ReLU, 2x2 max-pooling behind some of them, then a perceptron.

The networks of the papers on 3x32x32 images and ten classes, with the numbers of weights that a test compares:

| network | channels | kernel, padding | pooled | hidden | weights |
|---|---|---|---|---|---|
| FedUAB | 32, 32, 32 | 3, 0 | 1, 1, 0 | 64 | 52,874 |
| LR-BPFL ("1.22 M", binary) | 32, 64, 128 | 3, 1 | 1, 1, 1 | 512, 256 | 1,276,234 |
| BPFed, LeNet of its code's baselines | 6, 16 | 5, 0 | 1, 1 | 120, 84 | 62,006 |
| BPFed, LeNet of its code's Bayesian methods | 6, 16 | 5, 0 | 1, 0 | 120, 84 | 206,006 |
| FedRep's, which BPFed cites | 64, 64 | 5, 0 | 1, 1 | 120, 64 | 307,842 |
| pFedBayes, VGG with the head of pFedMe's code | 16, 32, 64, 128, 128 | 3, 1 | 1, 1, 1, 1, 1 | 512, 512 | 578,858 |
| pFedBayes, VGG with a linear head | 16, 32, 64, 128, 128 | 3, 1 | 1, 1, 1, 1, 1 | - | 246,314 |
| Self-FL's wake words, ours: 1x40x61, two classes | 16, 32 | 3, 1 | 1, 1 | 32 | 158,498 |

The paper of pFedBayes does not state the head of its VGG, and batch normalisation is left out: a posterior over its
scales means little. Self-FL says nothing of its network for audio.
"""

from __future__ import annotations

import itertools
from functools import partial

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from fedbayes.config import NetworkConfig
from fedbayes.models.network import Network, uniform_linear
from fedbayes.reading import ConfigError
from fedbayes.tensors import Layer, Params

POOL = 2


class Config(NetworkConfig):
    """Channels of the convolutions and sizes of the hidden layers behind them."""

    channels: tuple[PositiveInt, ...] = Field(
        strict=False, min_length=1, description="Channels each convolution gives, input side first."
    )
    kernel: PositiveInt = Field(3, description="Height and width of every convolution.")
    padding: NonNegativeInt = Field(0, description="Zeros put around the image before every convolution.")
    pooled: tuple[bool, ...] = Field(strict=False, description="Which convolutions have 2x2 max-pooling behind them.")
    hidden: tuple[PositiveInt, ...] = Field(strict=False, description="Units of each dense layer before the head.")


def build(config: Config, shape: tuple[int, ...], classes: int) -> Network:
    """The network for images of `shape` (channels, height, width)."""
    if len(config.pooled) != len(config.channels):
        raise ConfigError(
            f"network cnn: pooled: found {len(config.pooled)} values for {len(config.channels)} convolutions; expected "
            "one each"
        )
    channels = [shape[0], *config.channels]
    height, width = (_side_after(side, config) for side in shape[1:])
    sizes = [channels[-1] * height * width, *config.hidden, classes]
    convolutions = [f"conv{i}" for i in range(len(config.channels))]
    dense = [f"hidden{i}" for i in range(len(config.hidden))] + ["head"]

    convolve = partial(F.conv2d, padding=config.padding)

    def init(stream: torch.Generator) -> Params:
        params: Params = {}
        for name, (before, after) in zip(convolutions, itertools.pairwise(channels), strict=True):
            # The default of `torch.nn.Conv2d` is that of a linear map on one patch.
            weight, bias = uniform_linear(before * config.kernel**2, after, stream)
            kernels = weight.view(after, before, config.kernel, config.kernel)
            params |= {f"{name}.weight": kernels, f"{name}.bias": bias}
        for name, (fan_in, fan_out) in zip(dense, itertools.pairwise(sizes), strict=True):
            params[f"{name}.weight"], params[f"{name}.bias"] = uniform_linear(fan_in, fan_out, stream)
        return params

    def apply(layer: Layer, x: Tensor) -> Tensor:
        x = channels_last(x)
        for name, pooled in zip(convolutions, config.pooled, strict=True):
            x = layer(name, convolve, x)
            # Pooling first: it commutes with ReLU, to the bit and in its gradient, and leaves a quarter of the numbers.
            x = F.relu(F.max_pool2d(x, POOL) if pooled else x)
        x = x.flatten(1)
        for name in dense[:-1]:
            x = F.relu(layer(name, F.linear, x))
        return layer(dense[-1], F.linear, x)

    return Network(init, apply, (*convolutions, *dense), "conv")


def channels_last(x: Tensor) -> Tensor:
    """The same images with the channels of a pixel side by side in memory, where the CPU convolves faster.

    Written with permutations, because vmap knows no memory formats. Convolution, ReLU and pooling keep the layout.
    """
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def _side_after(side: int, config: Config) -> int:
    """Height or width behind the last convolution and its pooling."""
    left = side
    for pooled in config.pooled:
        left = (left + 2 * config.padding - config.kernel + 1) // (POOL if pooled else 1)
        if left < 1:
            raise ConfigError(
                f"network cnn: channels: {len(config.channels)} convolutions do not fit images {side} pixels wide"
            )
    return left
