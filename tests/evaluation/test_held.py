"""The size of a client's model, against the toy perceptron 2-5-3 counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

import toy
from agreement import preset
from fedbayes.evaluation.held import model_size
from fedbayes.federation.loop import start

W, BODY, HEAD = 33, 15, 18
BIASES = 5 + 3
# Features and labels of the first client's seven samples; the chains' variables, (3 - 1) x 30 x 7, are no part of it.
SAMPLES = 7 * (5 + 1)
# Two factors of rank 8 for each layer, each number with a mean and a rho; gates, and which ranks are left.
MASKS = 2 * 8 * ((5 + 2) + (3 + 5)) + 2 * 2 * 8


@pytest.mark.parametrize(
    ("method", "fields", "size"),
    [
        ("fedavg", toy.FEDAVG, W),
        ("fedper", preset("fedper", "paper"), W),
        ("pfedbayes", preset("pfedbayes", "paper"), 2 * W),
        ("feduab", preset("feduab", "paper"), 2 * W),
        ("metavd", preset("metavd", "all-layers", hidden=4), 2 * W - BIASES),
        ("lrbpfl", preset("lrbpfl", "paper"), W + MASKS),
        ("pfedgp", preset("pfedgp", "paper"), BODY + SAMPLES),
        ("fedpop", preset("fedpop", "paper", steps=6), BODY + 5 * HEAD),
    ],
)
def test_sizes_by_hand(method: str, fields: dict[str, Any], size: int) -> None:
    federation = toy.federation(method, fields)
    assert model_size(federation, start(federation)) == size
