"""A hypernetwork: a perceptron that turns a client's embedding into numbers for this client.

The server keeps it; clients see only what it says about them. It is trained through a vector-Jacobian product with what
the clients made of its answers.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fedbayes.tensors import Params

LEAK = 0.1  # slope of the leaky ReLU below 0
BIAS_STD = 1e-3  # spread of the initial biases


class Hypernetwork(NamedTuple):
    """Weights of the perceptron, and a row for each client of the population."""

    layers: Params
    embeddings: Tensor  # [client, length]


def start(
    stream: torch.Generator, population: int, sizes: tuple[int, ...], embedding_std: float, dtype: torch.dtype
) -> Hypernetwork:
    """A new one: normal weights of Xavier's variance 2 / (fan-in + fan-out), nearly no biases, normal embeddings.

    Args:
        stream: of random numbers.
        population: number of clients N; an embedding has 1 + N/4 numbers, rounded down.
        sizes: units of the hidden layers and of the answer.
        embedding_std: spread of the embeddings.
        dtype: of all.
    """
    length = 1 + population // 4
    embeddings = embedding_std * torch.randn(population, length, generator=stream, dtype=dtype)
    layers: Params = {}
    for number, (fan_in, fan_out) in enumerate(itertools.pairwise((length, *sizes))):
        weight = torch.randn(fan_out, fan_in, generator=stream, dtype=dtype)
        layers[f"{number}.weight"] = math.sqrt(2 / (fan_in + fan_out)) * weight
        layers[f"{number}.bias"] = BIAS_STD * torch.randn(fan_out, generator=stream, dtype=dtype)
    return Hypernetwork(layers, embeddings)


def answer(network: Hypernetwork, client: Tensor) -> Tensor:
    """What it says of one client: leaky ReLU behind every layer but the last."""
    x, last = network.embeddings[client], len(network.layers) // 2 - 1
    for number in range(last + 1):
        x = F.linear(x, network.layers[f"{number}.weight"], network.layers[f"{number}.bias"])
        if number < last:
            x = F.leaky_relu(x, LEAK)
    return x
