"""Convolutions over a sentence: word vectors, parallel convolutions over two and more words, the maximum over time.

A vocabulary of 50,000, vectors of 16, widths (2, 3, 4) with 10 channels each and 10 classes is the network of FedUAB on
CNews: 801,780 weights. Leaky ReLU with slope 0.01, as its public code has it.
"""

from __future__ import annotations

import torch
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from fedbayes.config import NetworkConfig
from fedbayes.models.network import Network, uniform_linear
from fedbayes.reading import ConfigError
from fedbayes.tensors import Layer, Params


class Config(NetworkConfig):
    """Sizes of the word vectors and of the convolutions."""

    vocabulary: PositiveInt = Field(description="Number of different tokens, padding included.")
    vector: PositiveInt = Field(description="Length of a word vector.")
    widths: tuple[PositiveInt, ...] = Field(strict=False, min_length=1, description="Words each convolution spans.")
    channels: PositiveInt = Field(description="Channels each convolution gives.")


def build(config: Config, shape: tuple[int, ...], classes: int) -> Network:
    """The network for sentences of `shape` (tokens,), padded to one length."""
    (length,) = shape
    if length < max(config.widths):
        raise ConfigError(
            f"network textcnn: widths: {max(config.widths)} words do not fit sentences of {length} tokens"
        )
    convolutions = {f"conv{width}": width for width in config.widths}

    def init(stream: torch.Generator) -> Params:
        # The default of torch.nn.Embedding.
        params = {"embedding.weight": torch.randn(config.vocabulary, config.vector, generator=stream)}
        for name, width in convolutions.items():
            weight, bias = uniform_linear(width * config.vector, config.channels, stream)
            params |= {f"{name}.weight": weight.view(-1, 1, width, config.vector), f"{name}.bias": bias}
        weight, bias = uniform_linear(len(convolutions) * config.channels, classes, stream)
        return params | {"head.weight": weight, "head.bias": bias}

    def apply(layer: Layer, x: Tensor) -> Tensor:
        sentence = layer("embedding", look_up, x).unsqueeze(1)
        found = [F.leaky_relu(layer(name, F.conv2d, sentence)).amax((2, 3)) for name in convolutions]
        return layer("head", F.linear, torch.cat(found, 1))

    return Network(init, apply, ("embedding", *convolutions, "head"), "conv")


def look_up(tokens: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    """The rows of a table: a map that is linear in the table and has no bias."""
    return F.embedding(tokens, table)
