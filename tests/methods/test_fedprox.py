"""FedProx: its penalties against autograd, and FedAvg at its end."""

from __future__ import annotations

import pytest
import torch

import plain_loop
import toy
from agreement import assert_same, preset
from fedbayes.federation.loop import start
from fedbayes.methods.fedprox import norm_pull


@pytest.mark.parametrize("penalty", ["squared", "norm"])
@pytest.mark.parametrize("mu", [0.7, 3.0])
def test_three_rounds_against_a_plain_loop(penalty: str, mu: float) -> None:
    federation = toy.federation("fedprox", preset("fedprox", "paper", lr=0.1, mu=mu, penalty=penalty))
    expected = plain_loop.fedprox(federation, start(federation).server.weights, 3, 0.1, mu, penalty == "squared")
    assert_same(toy.after(federation, 3).server.weights, expected)


@pytest.mark.parametrize("penalty", ["squared", "norm"])
def test_without_the_penalty_it_is_fedavg(penalty: str) -> None:
    ours = toy.after(toy.federation("fedprox", preset("fedprox", "paper", lr=0.1, mu=0.0, penalty=penalty)), 3)
    assert_same(ours.server.weights, toy.after(toy.federation(), 3).server.weights)


def test_the_norm_has_no_pull_where_it_has_no_gradient() -> None:
    w = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert norm_pull(w, w).tolist() == [0.0, 0.0]
    assert norm_pull(w, torch.zeros(2, dtype=torch.float64)).tolist() == [0.6, 0.8]
