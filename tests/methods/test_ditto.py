"""Ditto: two models that do not touch within a round."""

from __future__ import annotations

import pytest

import plain_loop
import toy
from agreement import assert_clients, assert_same, preset
from fedbayes.federation import trees
from fedbayes.federation.contract import Feed
from fedbayes.federation.loop import start


@pytest.mark.parametrize("name", ["paper", "reference", "selffl"])
def test_three_rounds_against_a_plain_loop(name: str) -> None:
    fields = preset("ditto", name, lr=0.1, lam=0.4)
    federation = toy.federation("ditto", fields)
    weights, personal = plain_loop.ditto(
        federation, start(federation).server.weights, 3, 0.1, 0.4,
        scaled=fields["penalty"] == "scaled", uniform=fields["weighting"] == "uniform",
    )  # fmt: skip
    state = toy.after(federation, 3)
    assert_same(state.server.weights, weights)
    assert_clients(state.clients.personal, personal)


def test_its_global_model_is_fedavg_whatever_lambda() -> None:
    ours = toy.after(toy.federation("ditto", preset("ditto", "paper", lr=0.1, lam=5.0)), 3)
    assert_same(ours.server.weights, toy.after(toy.federation(), 3).server.weights)


@pytest.mark.parametrize("penalty", ["scaled", "unscaled"])
def test_without_the_pull_the_personal_model_trains_alone(penalty: str) -> None:
    ours = toy.after(toy.federation("ditto", preset("ditto", "paper", lr=0.1, lam=0.0, penalty=penalty)), 3)
    alone = toy.after(toy.federation("local", preset("local", "paper", lr=0.1)), 3)
    assert_same(ours.clients.personal, alone.clients.own)


def test_the_unscaled_pull_of_one_ends_a_step_away_from_the_broadcast() -> None:
    # v - eta g - 1 (v - w) = w - eta g(v): with one step a round, wherever v was.
    federation = toy.federation("ditto", preset("ditto", "selffl", lr=0.1, lam=1.0), feed=Feed(4, 1))
    before = toy.after(federation, 3)
    after, data = toy.after(federation, 4, before), plain_loop.Data(federation)
    data.taken = before.seen.tolist()
    for client in range(3):
        slope = plain_loop.grad(trees.take(before.clients.personal, client), *data.next(client))
        expected = plain_loop.moved(before.server.weights, slope, 0.1)
        assert_same(trees.take(after.clients.personal, client), expected)
