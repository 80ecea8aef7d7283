"""Per-FedAvg: both approximations, what it adapts on, and FedAvg at its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import plain_loop
import toy
from agreement import assert_same, preset
from fedbayes.evaluation.evaluate import predict_pm
from fedbayes.federation import trees
from fedbayes.federation.contract import Feed
from fedbayes.federation.loop import Federation, State, start
from plain_fedavg import fedavg


def run(name: str = "paper", **changes: object) -> tuple[Federation, State]:
    federation = toy.federation("perfedavg", preset("perfedavg", name, **changes))
    return federation, toy.after(federation, 3)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_first_order_against_a_plain_loop(weighting: str) -> None:
    federation, state = run("reference", alpha=0.3, beta=0.1, weighting=weighting)
    expected = plain_loop.perfedavg(
        federation, start(federation).server.weights, 3, 0.3, 0.1, exact_hessian=False, uniform=weighting == "uniform"
    )
    assert_same(state.server.weights, expected)


def test_hessian_free_against_exact_second_derivatives() -> None:
    # The difference of two gradients misses the exact product by O(delta^2), and by more only across a ReLU's kink.
    federation, state = run("paper", alpha=0.3, beta=0.1, delta=1e-5)
    expected = plain_loop.perfedavg(
        federation, start(federation).server.weights, 3, 0.3, 0.1, exact_hessian=True, uniform=True
    )
    assert_same(state.server.weights, expected, atol=1e-7)
    first_order = run("paper", alpha=0.3, beta=0.1, order="fo")[1]
    assert not torch.allclose(first_order.server.weights["head.weight"], expected["head.weight"], atol=1e-4)


def test_without_an_inner_step_it_is_fedavg_with_the_outer_rate() -> None:
    # All conditions: alpha 0, weights by samples, and batches that are the same whichever of a step's two is taken.
    fields = preset("perfedavg", "reference", alpha=0.0, beta=0.1)
    federation = toy.federation("perfedavg", fields, feed=Feed(1, 3, order="full"))
    plain = toy.federation(feed=Feed(1, 3, order="full"))
    assert_same(toy.after(federation, 3).server.weights, toy.after(plain, 3).server.weights)


def test_each_step_descends_on_its_second_batch() -> None:
    federation = toy.federation("perfedavg", preset("perfedavg", "reference", alpha=0.0, beta=0.1), sizes=(9,))
    data, weights = plain_loop.Data(federation), start(federation).server.weights
    for _ in range(plain_loop.STEPS):
        data.next(0)
        weights = plain_loop.moved(weights, plain_loop.grad(weights, *data.next(0)), 0.1)
    assert_same(toy.after(federation, 1).server.weights, weights)
    assert not torch.allclose(
        weights["head.bias"], fedavg(federation, start(federation).server.weights, 1, 4, 3, 0.1, 0.0)["head.bias"]
    )


@pytest.mark.parametrize("name", ["paper", "reference", "leak"])
def test_the_adapted_model_by_hand(name: str) -> None:
    fields = preset("perfedavg", name, alpha=0.3, beta=0.2)
    federation, state = run(name, alpha=0.3, beta=0.2)
    found, data = predict_pm(federation, state), federation.data
    shards = data.test if name == "leak" else data.train
    for client in range(3):
        rows = shards.rows[client, : shards.sizes[client]]
        batches = list(rows.split(plain_loop.BATCH))
        # Training batches go on from where training stopped; test batches begin at the first.
        first = 0 if name == "leak" else int(state.seen[client])
        weights = state.server.weights
        for number, rate in enumerate([0.3, 0.2][: 1 if fields["adaptation"] == "alpha" else 2]):
            own = batches[(first + number) % len(batches)]
            weights = plain_loop.moved(weights, plain_loop.grad(weights, data.inputs[own], data.labels[own]), rate)
        tests = data.test.rows[client, : data.test.sizes[client]]
        logits = federation.method.predict(weights, data.inputs[tests], torch.tensor(0))[0]
        torch.testing.assert_close(found.probs[found.clients == client], logits, rtol=0, atol=1e-11)


def test_only_the_leak_looks_at_test_labels() -> None:
    for name in ("paper", "reference", "leak"):
        federation, state = run(name, alpha=0.3)
        labels = federation.data.labels.clone()
        rows = federation.data.test.rows[federation.data.test.rows > 0]
        labels[rows] = (labels[rows] + 1) % toy.CLASSES
        other = replace(federation, data=replace(federation.data, labels=labels))
        same = torch.equal(predict_pm(federation, state).probs, predict_pm(other, state).probs)
        assert same == (name != "leak")
        assert all(
            torch.equal(a, b) for a, b in zip(trees.leaves(state), trees.leaves(toy.after(other, 3)), strict=True)
        )
