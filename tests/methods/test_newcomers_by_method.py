"""Clients that were not in training: every method adapts them, without touching what is shared or the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from test_contract import CASES, toy_run

import plain_loop
import toy
from agreement import EXACT, assert_same, preset
from fedbayes.evaluation.evaluate import predict_all
from fedbayes.federation import trees
from fedbayes.federation.contract import Feed
from fedbayes.federation.loop import Federation, State
from fedbayes.federation.protocols import for_newcomers
from fedbayes.federation.resident import Resident
from fedbayes.reading import ConfigError
from plain_loop import BODY, HEAD, Data, Weights, grad, moved

NEW = 1


def trained(method: str, fields: dict[str, Any], visits: int = 1) -> tuple[Federation, State]:
    federation = replace(toy.federation(method, fields), newcomers=(NEW,), clients_per_round=2, newcomer_visits=visits)
    return federation, toy.after(federation, 3)


@pytest.mark.parametrize(("method", "preset_"), CASES)
def test_every_method_answers_for_a_newcomer(method: str, preset_: str) -> None:
    federation = replace(toy_run(method, preset_), newcomers=(NEW,), clients_per_round=2)
    state = toy.after(federation, 2)
    before = [leaf.clone() for leaf in trees.leaves(state)]
    found = predict_all(federation, state)["pm"]
    assert set(found.clients.tolist()) == {0, 1, 2}
    torch.testing.assert_close(found.probs.sum(1), torch.ones(15, dtype=found.probs.dtype))
    assert all(torch.equal(a, b) for a, b in zip(before, trees.leaves(state), strict=True)), "tests change nothing"


def new_probabilities(federation: Federation, state: State) -> torch.Tensor:
    found = predict_all(federation, state)["pm"]
    return found.probs[found.clients == NEW]


def predicted(federation: Federation, weights: Weights) -> torch.Tensor:
    rows = federation.data.test.rows[NEW, : federation.data.test.sizes[NEW]]
    return federation.method.predict(weights, federation.data.inputs[rows], torch.tensor(0))[0]


@pytest.mark.parametrize(
    ("method", "moves"), [("fedper", HEAD), ("fedrep", HEAD), ("lgfedavg", BODY)], ids=["fedper", "fedrep", "lgfedavg"]
)
@pytest.mark.parametrize("visits", [1, 4])
def test_the_private_part_is_trained_and_the_shared_part_frozen(
    method: str, moves: tuple[str, ...], visits: int
) -> None:
    fields = preset(method, "paper", lr=0.1, momentum=0.0)
    federation, state = trained(method, fields | ({"private_start": "common"} if method == "fedper" else {}), visits)
    # A newcomer's private part begins as everybody's did.
    weights = {name: (state.server.shared | state.server.private)[name] for name in BODY + HEAD}
    shared = [name for name in weights if name not in moves]
    data = Data(federation)
    for _ in range(visits * plain_loop.STEPS):
        g = grad(weights, *data.next(NEW))
        weights = moved(weights, {name: g[name] for name in moves}, 0.1)
    assert_same({name: weights[name] for name in shared}, {name: state.server.shared[name] for name in shared})
    torch.testing.assert_close(new_probabilities(federation, state), predicted(federation, weights), rtol=0, atol=EXACT)


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_global_methods_fine_tune_a_newcomer(method: str) -> None:
    fields = toy.FEDAVG if method == "fedavg" else preset("fedprox", "paper", lr=0.1, mu=0.0)
    federation, state = trained(method, fields)
    data, weights = Data(federation), state.server.weights
    for _ in range(plain_loop.STEPS):
        weights = moved(weights, grad(weights, *data.next(NEW)), 0.1)
    torch.testing.assert_close(new_probabilities(federation, state), predicted(federation, weights), rtol=0, atol=EXACT)


@pytest.mark.parametrize("method", ["ditto", "pfedme", "pfedbayes"])
def test_personal_models_of_newcomers_begin_at_the_trained_server_not_at_the_initial_one(method: str) -> None:
    still = {"ditto": {"lr": 0.0}, "pfedme": {"lr": 0.0, "lr_personal": 0.0}, "pfedbayes": {"lr_personal": 0.0}}[method]
    federation, state = trained(method, preset(method, "paper"))
    # With step sizes of 0 at the test alone, what is tested is where the newcomer begins.
    frozen = toy.federation(method, preset(method, "paper") | still | {"noise_std": 0.0} if method == "pfedbayes" else
                            preset(method, "paper") | still)  # fmt: skip
    federation = replace(federation, method=frozen.method)
    common = predict_all(federation, state)["gm"]
    torch.testing.assert_close(
        new_probabilities(federation, state), common.probs[common.clients == NEW], rtol=0, atol=1e-9
    )


def test_a_newcomer_of_heurfedamp_is_sent_a_mixture_of_the_others_alone() -> None:
    fields = preset("heurfedamp", "paper", lr=0.1, sigma=0.0, self_weight=0.5)
    federation, state = trained("heurfedamp", fields)
    federation = replace(
        federation, method=toy.federation("heurfedamp", fields | {"lr": 0.0}).method
    )  # tested where it begins
    mean = trees.each(lambda leaf: (leaf[0] + leaf[2]) / 2, state.clients.weights)
    torch.testing.assert_close(new_probabilities(federation, state), predicted(federation, mean), rtol=0, atol=EXACT)


def test_each_visit_of_a_newcomer_begins_at_the_broadcast() -> None:
    # pFedMe's w_i goes back to w at every visit, so that theta stays near it however many there are.
    fields = preset("pfedme", "paper", lr=0.05, lr_personal=0.05, lam=15.0)
    federation, state = trained("pfedme", fields, visits=3)
    weights = state.server.weights
    data = Data(federation)
    for _ in range(3):
        theta, local = weights, weights
        for _ in range(plain_loop.STEPS):
            batch = data.next(NEW)
            for _ in range(fields["inner_steps"]):
                g = grad(theta, *batch)
                theta = {n: t - 0.05 * (g[n] + 15.0 * (t - local[n])) for n, t in theta.items()}
            local = {n: w - 0.05 * 15.0 * (w - theta[n]) for n, w in local.items()}
    torch.testing.assert_close(new_probabilities(federation, state), predicted(federation, theta), rtol=0, atol=EXACT)


def test_a_way_for_newcomers_by_name() -> None:
    federation, state = trained("fedper", preset("fedper", "paper", lr=0.1, private_start="common"))
    own = new_probabilities(federation, state)
    frozen = replace(federation, method=for_newcomers(federation.method, "frozen-shared"))
    assert torch.equal(new_probabilities(frozen, state), own)
    tuned = replace(federation, method=for_newcomers(federation.method, "fine-tuned"))
    data, weights = Data(federation), {n: (state.server.shared | state.server.private)[n] for n in BODY + HEAD}
    for _ in range(plain_loop.STEPS):
        weights = moved(weights, grad(weights, *data.next(NEW)), 0.1)
    torch.testing.assert_close(new_probabilities(tuned, state), predicted(federation, weights), rtol=0, atol=EXACT)
    with pytest.raises(ConfigError, match="this method has no private part to train alone"):
        for_newcomers(toy.federation().method, "frozen-shared")


def test_each_visit_of_a_newcomer_has_its_own_random_numbers() -> None:
    # Shuffled epochs: with one order for all visits, two visits of one epoch would be one of the same order twice.
    fields = preset("fedper", "paper", lr=0.1, private_start="common")
    federation, _ = trained("fedper", fields, visits=2)
    federation = replace(federation, feed=Feed(4, 1, "epochs", "shuffled"))
    state = toy.after(federation, 1)
    orders: list[list[int]] = []
    look_up = Resident.samples

    def noted(self: Resident, rows: torch.Tensor) -> torch.Tensor:
        orders.append(rows.flatten().tolist())
        return look_up(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Resident, "samples", noted)
        predict_all(federation, state)
    own = set(federation.data.train.rows[NEW, : federation.data.train.sizes[NEW]].tolist())
    batches = [rows for rows in orders if len(rows) == 4 and set(rows) <= own]
    assert len(batches) == 6 and batches[:3] != batches[3:], "three batches of twelve samples in each of two visits"
