"""FedAMP and HeurFedAMP: mixtures by their formulas, and who may be in them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch

import plain_loop
import toy
from agreement import assert_clients, assert_same, preset
from fedbayes.federation import trees
from fedbayes.federation.loop import Federation, choose, send, start

HEURISTIC: dict[str, Any] = {"lr": 0.1, "sigma": 2.0, "self_weight": 0.3, "lam": 0.5, "alpha": 4.0}
EXACT: dict[str, Any] = {"lr": 0.1, "sigma": 3.0, "lam": 0.5, "alpha": 1.5}
SLOWER: dict[str, Any] = {"alpha_decay": 0.5, "alpha_rounds": 2}


def alpha(fields: dict[str, Any], number: int) -> float:
    return float(fields["alpha"] * 0.5 ** (number // 2))


def test_four_rounds_of_heurfedamp_against_a_plain_loop() -> None:
    federation = toy.federation("heurfedamp", preset("heurfedamp", "paper", **HEURISTIC, **SLOWER))
    weights = partial(plain_loop.cosine_weights, self_weight=0.3, sigma=2.0)
    expected = plain_loop.message_passing(
        federation,
        trees.take(start(federation).clients.weights, 0),
        rounds=4,
        lr=0.1,
        pull=lambda number: 0.5 / alpha(HEURISTIC, number),
        weights=lambda client, models, number: weights(client, models),
    )
    assert_clients(toy.after(federation, 4).clients.weights, expected)


def test_four_rounds_of_fedamp_against_a_plain_loop() -> None:
    federation = toy.federation("fedamp", preset("fedamp", "paper", **EXACT, **SLOWER))
    expected = plain_loop.message_passing(
        federation,
        trees.take(start(federation).clients.weights, 0),
        rounds=4,
        lr=0.1,
        pull=lambda number: 0.5 / alpha(EXACT, number),
        weights=lambda client, models, number: plain_loop.distance_weights(client, models, alpha(EXACT, number), 3.0),
    )
    assert_clients(toy.after(federation, 4).clients.weights, expected)


def test_self_weight_one_and_no_pull_is_local_training() -> None:
    fields = preset("heurfedamp", "paper", lr=0.1, self_weight=1.0, lam=0.0)
    ours = toy.after(toy.federation("heurfedamp", fields), 3)
    alone = toy.after(toy.federation("local", preset("local", "paper", lr=0.1)), 3)
    assert_same(ours.clients.weights, alone.clients.own)


def test_nobody_near_and_no_pull_is_local_training() -> None:
    ours = toy.after(toy.federation("fedamp", preset("fedamp", "paper", lr=0.1, sigma=1e-9, lam=0.0)), 3)
    alone = toy.after(toy.federation("local", preset("local", "paper", lr=0.1)), 3)
    assert_same(ours.clients.weights, alone.clients.own)


@pytest.mark.parametrize("method", ["fedamp", "heurfedamp"])
def test_mixtures_are_convex_and_never_of_a_model_nobody_uploaded(method: str) -> None:
    federation = toy.federation(method, preset(method, "paper"), sizes=(5,) * 6, clients_per_round=2)
    state = toy.after(federation, 1)
    seen = choose(federation, 0)
    assert state.server.seen.nonzero().squeeze(1).tolist() == seen.tolist()
    # Rows that nobody uploaded are spoilt: nothing of them may reach anybody.
    spoilt = state.server.models.clone()
    unseen = ~state.server.seen
    mixtures = mixed(federation, state.server)
    low, high = state.server.models[seen].min(0).values, state.server.models[seen].max(0).values
    for client in range(6):
        own = (mixtures[client] >= low - 1e-12) & (mixtures[client] <= high + 1e-12)
        if bool(unseen[client]) and method == "fedamp":
            continue  # its own initial model stays in its mixture
        assert bool(own.all())
    others = spoilt.clone()
    others[unseen] = math.pi
    again = mixed(federation, state.server._replace(models=others))
    torch.testing.assert_close(again[seen], mixtures[seen], rtol=0, atol=0)


def mixed(federation: Federation, server: Any) -> torch.Tensor:
    """Every client's mixture as a vector."""
    down = send(federation, server, torch.arange(federation.population))
    return torch.cat([leaf.flatten(1) for leaf in down.mixture.values()], 1)


def test_a_pull_beyond_one_step_ends_at_the_mixture_and_does_not_overshoot() -> None:
    strong = preset("heurfedamp", "paper", lr=0.1, lam=1e6, alpha=1.0, alpha_decay=1.0)
    federation = toy.federation("heurfedamp", strong)
    state = toy.after(federation, 4)
    mixtures = send(federation, state.server, torch.arange(3)).mixture
    # With a pull of 1 / lr every step is w <- u - lr g(w): a step of the gradient away from the mixture, never further.
    after = toy.after(federation, 5, state).clients.weights
    data = plain_loop.Data(federation)
    data.taken = state.seen.tolist()
    for client in range(3):
        mixture = trees.take(mixtures, client)
        own = mixture
        for _ in range(plain_loop.STEPS):
            own = plain_loop.moved(mixture, plain_loop.grad(own, *data.next(client)), 0.1)
        assert_same(trees.take(after, client), own)


def test_beginning_at_the_own_model_without_a_pull_is_local_training_whoever_takes_part() -> None:
    ours = toy.after(toy.federation("heurfedamp", preset("heurfedamp", "reference", lr=0.1), clients_per_round=2), 5)
    alone = toy.after(toy.federation("local", preset("local", "paper", lr=0.1), clients_per_round=2), 5)
    assert_same(ours.clients.weights, alone.clients.own)


def test_fedamp_never_forgets_a_client_s_own_model_entirely_when_models_differ() -> None:
    federation = toy.federation("fedamp", preset("fedamp", "paper"))  # alpha 10,000: at its bound
    state = toy.after(federation, 3)
    near = torch.exp(-torch.cdist(state.server.models, state.server.models).square() / 25.0) / 2
    own = 1 - (near.sum(1) - near.diagonal())
    assert bool((own > 0).all())
    expected = near - torch.diag(near.diagonal()) + torch.diag(own)
    torch.testing.assert_close(mixed(federation, state.server), expected @ state.server.models, rtol=0, atol=1e-9)


def test_there_is_no_global_model() -> None:
    for method in ("fedamp", "heurfedamp"):
        assert toy.federation(method, preset(method, "paper")).method.common is None
