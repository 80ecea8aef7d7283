r"""Long short-term memory over word vectors, then one linear layer on the last hidden state.

Two layers of 256 on vectors of 300 is the network of Self-FL on Sent140: 1,097,728 weights (PyTorch's count, with two
vectors of biases) and 514 in the head for two classes. There the word vectors are inputs: a frozen table is data. With
`vocabulary` and `vector` the inputs are tokens, and the table is a layer that is learned like the others.
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
    """Sizes of the recurrent layers."""

    hidden: PositiveInt = Field(description="Units of each layer.")
    depth: PositiveInt = Field(description="Number of layers, one on top of the other.")
    vocabulary: PositiveInt | None = Field(
        None, description="Number of different tokens, padding included; empty where word vectors are inputs."
    )
    vector: PositiveInt | None = Field(
        None, description="Length of the learned word vectors; given where `vocabulary` is."
    )


def build(config: Config, shape: tuple[int, ...], classes: int) -> Network:
    """The network for sequences of `shape` (steps, length of a vector), or (steps,) where it learns the vectors."""
    table = _table(config)
    if len(shape) != (1 if table else 2):
        wanted = "tokens (steps,)" if table else "word vectors (steps, length), or the fields vocabulary and vector"
        raise ConfigError(f"network lstm: the samples are {shape}; expected {wanted}")
    units = config.hidden
    length_of_vector = table[1] if table else shape[1]
    stages = [f"lstm{i}" for i in range(config.depth)]

    def init(stream: torch.Generator) -> Params:
        # The default of torch.nn.Embedding.
        params: Params = {"embedding.weight": torch.randn(table, generator=stream)} if table else {}
        for stage, length in zip(stages, [length_of_vector] + [units] * (config.depth - 1), strict=True):
            for part, fan_in in (("input", length), ("hidden", units)):
                # torch.nn.LSTM draws everything from U(-1/sqrt(units), 1/sqrt(units)), whatever a matrix multiplies.
                weight, bias = uniform_linear(fan_in, 4 * units, stream, bound_by=units)
                params |= {f"{stage}_{part}.weight": weight, f"{stage}_{part}.bias": bias}
        weight, bias = uniform_linear(units, classes, stream)
        return params | {"head.weight": weight, "head.bias": bias}

    def apply(layer: Layer, x: Tensor) -> Tensor:
        if table:
            x = layer("embedding", look_up, x)
        for stage in stages:
            x = _run(layer, stage, x, units)
        return layer("head", F.linear, x[:, -1])

    layers = ["embedding"] if table else []
    layers += [f"{stage}_{part}" for stage in stages for part in ("input", "hidden")]
    return Network(init, apply, (*layers, "head"), "recurrent")


def _table(config: Config) -> tuple[int, int] | None:
    """Rows and columns of the learned word vectors, if there are any."""
    if config.vocabulary is not None and config.vector is not None:
        return config.vocabulary, config.vector
    if config.vocabulary is not None or config.vector is not None:
        raise ConfigError("network lstm: vocabulary and vector belong together; found only one of them")
    return None


def _run(layer: Layer, stage: str, x: Tensor, units: int) -> Tensor:
    r"""Hidden states $h_t$ `[sample, step, unit]` of one layer.

    $c_t = \sigma(f) c_{t-1} + \sigma(i) \tanh(g)$, $h_t = \sigma(o) \tanh(c_t)$ with
    $(i, f, g, o) = W x_t + b + U h_{t-1} + b'$ (Hochreiter and Schmidhuber 1997, as PyTorch writes it).
    """
    driven = layer(f"{stage}_input", F.linear, x)
    hidden = cell = x.new_zeros(len(x), units)
    states = []
    for step in driven.unbind(1):
        i, f, g, o = (step + layer(f"{stage}_hidden", F.linear, hidden)).chunk(4, 1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        states.append(hidden)
    return torch.stack(states, 1)
