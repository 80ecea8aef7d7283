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
from fedbayes.models.embedding import look_up
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
        sentence = layer("embedding", look_up, x)
        found = [F.leaky_relu(layer(name, over_words, sentence)).amax(2) for name in convolutions]
        return layer("head", F.linear, torch.cat(found, 1))

    return Network(init, apply, ("embedding", *convolutions, "head"), "conv", parallel=tuple(convolutions))


def over_words(sentence: Tensor, kernels: Tensor, bias: Tensor | None) -> Tensor:
    """Kernels `[channel, 1, width, vector]` slid over a sentence `[sample, word, vector]`: `[sample, channel, word]`.

    One-dimensional, the vector's entries as channels. As a convolution over an image of one channel it is the same sum,
    but oneDNN 3.12 (torch 2.13) computes a wrong gradient for kernels about 16 wide on processors with AVX-512.
    """
    return F.conv1d(sentence.transpose(1, 2), kernels.squeeze(1).transpose(1, 2), bias)
