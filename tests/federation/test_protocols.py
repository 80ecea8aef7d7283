"""When the personal model is tested: each named protocol by hand, on FedAvg and FedPer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import plain_loop
import toy
from agreement import EXACT, preset
from fedbayes.evaluation.evaluate import predict_pm
from fedbayes.federation import trees
from fedbayes.federation.loop import Federation, State, choose, start
from fedbayes.federation.protocols import under_protocol
from plain_loop import BODY, HEAD, Data, Weights, grad, moved

LR = 0.1


def probabilities_of(federation: Federation, state: State, client: int) -> torch.Tensor:
    """What is predicted for a client's test set."""
    found = predict_pm(federation, state)
    return found.probs[found.clients == client]


def predicted(federation: Federation, weights: Weights, client: int) -> torch.Tensor:
    rows = federation.data.test.rows[client, : federation.data.test.sizes[client]]
    return federation.method.predict(weights, federation.data.inputs[rows], torch.tensor(0))[0]


def changed(method: str, personal: str, batches: int | None = None, **other: Any) -> Federation:
    fields = toy.FEDAVG if method == "fedavg" else preset(method, "paper", lr=LR, private_start="common")
    federation = toy.federation(method, fields, **other)
    return replace(federation, method=under_protocol(federation.method, personal, batches))


def after_steps(federation: Federation, state: State, weights: Weights, client: int, steps: int) -> Weights:
    """Some SGD steps more on the batches that come next."""
    data = Data(federation)
    data.taken[client] = int(state.seen[client])
    for _ in range(steps):
        weights = moved(weights, grad(weights, *data.next(client)), LR)
    return weights


def personal_start(method: str, state: State, client: int) -> Weights:
    """What a client holds right after the broadcast."""
    if method == "fedavg":
        return dict(state.server.weights)
    together = state.server.shared | trees.take(state.clients.own, client)
    return {name: together[name] for name in BODY + HEAD}


@pytest.mark.parametrize("method", ["fedavg", "fedper"])
@pytest.mark.parametrize(("personal", "steps"), [("broadcast", 0), ("fine-tuned", plain_loop.STEPS), ("adapted", 2)])
def test_steps_after_the_broadcast(method: str, personal: str, steps: int) -> None:
    federation = changed(method, personal, 2 if personal == "adapted" else None)
    state = toy.after(federation, 2)
    for client in range(3):
        weights = after_steps(federation, state, personal_start(method, state, client), client, steps)
        expected = predicted(federation, weights, client)
        torch.testing.assert_close(probabilities_of(federation, state, client), expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("method", ["fedavg", "fedper"])
def test_trained_is_what_the_last_visit_left(method: str) -> None:
    federation = changed(method, "trained", clients_per_round=2)
    states = [start(federation)]
    for number in range(1, 7):
        states.append(toy.after(federation, number, states[-1]))
    last = states[-1]
    for client in range(3):
        # The round in which this client was visited last.
        visited = [number for number in range(6) if client in choose(federation, number).tolist()]
        before = states[visited[-1]]._replace(clients=states[visited[-1]].clients.client)
        weights = after_steps(federation, before, personal_start(method, before, client), client, plain_loop.STEPS)
        torch.testing.assert_close(
            probabilities_of(federation, last, client), predicted(federation, weights, client), rtol=0, atol=EXACT
        )


def test_trained_before_any_training_is_the_initial_model() -> None:
    federation = changed("fedavg", "trained")
    state = start(federation)
    torch.testing.assert_close(probabilities_of(federation, state, 1), predicted(federation, state.server.weights, 1))


@pytest.mark.parametrize("personal", ["broadcast", "trained", "fine-tuned", "adapted"])
def test_a_protocol_changes_nothing_of_the_training(personal: str) -> None:
    plain = toy.after(toy.federation(clients_per_round=2), 3)
    state = toy.after(changed("fedavg", personal, 1 if personal == "adapted" else None, clients_per_round=2), 3)
    for name, weight in plain.server.weights.items():
        assert torch.equal(weight, state.server.weights[name])
    assert torch.equal(plain.seen, state.seen)


def test_the_methods_own_protocol_stays_without_a_name() -> None:
    method = toy.federation().method
    assert under_protocol(method, None) is method
