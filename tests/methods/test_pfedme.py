"""pFedMe: three rounds, one round by hand, and the aliased personal model."""

from __future__ import annotations

import pytest
import torch

import plain_loop
import toy
from agreement import assert_clients, assert_same, preset
from fedbayes.federation.contract import Feed
from fedbayes.federation.loop import start

FIELDS = {"lr": 0.02, "lr_personal": 0.05, "lam": 3.0, "server_step": 0.7}


@pytest.mark.parametrize("name", ["paper", "reference"])
def test_three_rounds_against_a_plain_loop(name: str) -> None:
    fields = preset("pfedme", name, **FIELDS)
    federation = toy.federation("pfedme", fields)
    weights, thetas, locals_ = plain_loop.pfedme(
        federation, start(federation).server.weights, 3, fields, uniform=fields["weighting"] == "uniform"
    )
    state = toy.after(federation, 3)
    assert_same(state.server.weights, weights)
    # The public code stores the working model, which ends as w_i; the text's personal model is theta_i.
    assert_clients(state.clients.personal, locals_ if name == "reference" else thetas)


def test_w_after_one_round_of_one_batch_by_hand() -> None:
    fields = preset("pfedme", "paper", lr=0.02, lr_personal=0.05, lam=3.0, inner_steps=2, server_step=1.0)
    federation = toy.federation("pfedme", fields, sizes=(4,), feed=Feed(4, 1))
    w = start(federation).server.weights
    x, y = federation.data.inputs[:4], federation.data.labels[:4]
    # theta_1 = w - 0.05 g(w); theta_2 = theta_1 - 0.05 (g(theta_1) + 3 (theta_1 - w)); w' = w - 0.02 * 3 (w - theta_2)
    one = {n: v - 0.05 * plain_loop.grad(w, x, y)[n] for n, v in w.items()}
    two = {n: v - 0.05 * (plain_loop.grad(one, x, y)[n] + 3.0 * (v - w[n])) for n, v in one.items()}
    assert_same(toy.after(federation, 1).server.weights, {n: 0.94 * v + 0.06 * two[n] for n, v in w.items()})


def test_without_a_local_rate_the_server_stands_still() -> None:
    federation = toy.federation("pfedme", preset("pfedme", "paper", lr=0.0))
    assert_same(toy.after(federation, 2).server.weights, start(federation).server.weights)


def test_personal_models_of_the_presets_differ_only_by_what_is_stored() -> None:
    one, other = (
        toy.after(toy.federation("pfedme", preset("pfedme", "reference", **FIELDS, alias=alias)), 2)
        for alias in (True, False)
    )
    assert_same(one.server, other.server)
    assert not torch.allclose(one.clients.personal["head.bias"], other.clients.personal["head.bias"])
