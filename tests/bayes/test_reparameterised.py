"""Layers whose outputs are drawn: the law of their outputs against drawn weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fedbayes.bayes.layers import plain, reparameterised
from fedbayes.models import load_network
from fedbayes.models.embedding import look_up

DRAWS = 20_000
# Means and variances of 20,000 draws; a comparison of two such is off by more than this many standard errors once in
# 16,000 times, and 60 are made.
STANDARD_ERRORS = 4.0


def draws(stream: torch.Generator):  # type: ignore[no-untyped-def]
    return lambda name, like: torch.randn(like.shape, generator=stream, dtype=like.dtype)


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_outputs_have_the_mean_and_variance_of_drawn_weights(kind: str) -> None:
    stream = torch.Generator().manual_seed(0)
    if kind == "linear":
        op, x, shape = torch.nn.functional.linear, torch.randn(1, 4, generator=stream), (3, 4)
    else:
        op, x, shape = torch.nn.functional.conv2d, torch.randn(1, 2, 3, 3, generator=stream), (3, 2, 2, 2)  # type: ignore[assignment]
    mu = {"a.weight": torch.randn(shape, generator=stream), "a.bias": torch.randn(3, generator=stream)}
    sigma = {name: 0.1 + torch.rand(m.shape, generator=stream) for name, m in mu.items()}
    layer, noise = reparameterised(mu, sigma, draws(stream)), draws(stream)

    def weights() -> dict[str, Tensor]:
        return {name: m + sigma[name] * noise(name, m) for name, m in mu.items()}

    local = torch.stack([layer("a", op, x) for _ in range(DRAWS)]).double()
    whole = torch.stack([plain(weights())("a", op, x) for _ in range(DRAWS)]).double()
    variance = whole.var(0)
    error = (2 * variance / DRAWS).sqrt()
    assert bool(((local.mean(0) - whole.mean(0)).abs() <= STANDARD_ERRORS * error).all())
    # The variance of a Gaussian's sample variance is 2 sigma^4 / n.
    assert bool(((local.var(0) - variance).abs() <= STANDARD_ERRORS * variance * math.sqrt(4 / DRAWS)).all())


def test_word_vectors_are_drawn_as_a_table() -> None:
    table = {"embedding.weight": torch.zeros(6, 2)}
    spread = {"embedding.weight": torch.ones(6, 2)}
    noise = torch.arange(12.0).view(6, 2)
    found = reparameterised(table, spread, lambda name, like: noise)("embedding", look_up, torch.tensor([[1, 1, 4]]))
    assert found[0].tolist() == [[2.0, 3.0], [2.0, 3.0], [8.0, 9.0]], "one word has one vector in a pass"


def test_without_noise_it_is_the_plain_network() -> None:
    network = load_network("cnn", {"channels": (2,), "pooled": (True,), "hidden": (3,)}, (1, 6, 6), 4)
    weights = network.init(torch.Generator().manual_seed(0))
    sigma = {name: torch.ones_like(w) for name, w in weights.items()}
    x = torch.randn(5, 1, 6, 6)
    silent = reparameterised(weights, sigma, lambda name, like: torch.zeros_like(like))
    torch.testing.assert_close(network.apply(silent, x), network.apply(plain(weights), x))
