"""FedAvg's own laws; three rounds against a plain loop are in tests/federation/test_engine.py."""

from __future__ import annotations

import torch
from torch.nn import functional as F

import toy
from fedbayes.federation.contract import Batch, Cohort
from fedbayes.federation.loop import advance, start
from fedbayes.parts.average import shares, weighted_mean
from fedbayes.parts.weights import batch_loss


def cohort(*sizes: int) -> Cohort:
    return Cohort(torch.arange(len(sizes)), torch.tensor(sizes), len(sizes), len(sizes))


def test_equal_messages_are_not_changed_by_the_mean() -> None:
    stacked = {"w": torch.tensor([[1.0, -2.0]] * 3, dtype=torch.float64)}
    for weighting in ("uniform", "samples"):
        weights = shares(cohort(1, 5, 9), weighting, torch.float64)  # type: ignore[arg-type]
        torch.testing.assert_close(weighted_mean(stacked, weights)["w"], stacked["w"][0], rtol=0, atol=1e-15)


def test_the_mean_by_hand() -> None:
    stacked = {"w": torch.tensor([[0.0], [3.0]], dtype=torch.float64)}
    for weighting, expected in (("samples", 2.0), ("uniform", 1.5)):
        weights = shares(cohort(1, 2), weighting, torch.float64)  # type: ignore[arg-type]
        assert float(weighted_mean(stacked, weights)["w"]) == expected


def test_weighting_uniform_differs_from_samples_for_unequal_clients() -> None:
    found = []
    for weighting in ("samples", "uniform"):
        federation = toy.federation(fields=toy.FEDAVG | {"weighting": weighting})
        found.append(advance(federation, start(federation))[0].server.weights["head.bias"])
    assert not torch.allclose(*found)


def test_step_size_zero_returns_the_broadcast_weights() -> None:
    federation = toy.federation(fields=toy.FEDAVG | {"lr": 0.0})
    state = start(federation)
    torch.testing.assert_close(advance(federation, state)[0].server.weights, state.server.weights, rtol=0, atol=1e-15)


def test_padding_does_not_count_in_the_loss() -> None:
    network = toy.network()
    weights = network.init(torch.Generator().manual_seed(0))
    x, y = torch.randn(4, 1, 1, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    mask = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    hidden = F.relu(x[:2].flatten(1) @ weights["hidden0.weight"].T + weights["hidden0.bias"])
    expected = F.cross_entropy(hidden @ weights["head.weight"].T + weights["head.bias"], y[:2])
    torch.testing.assert_close(batch_loss(weights, network, Batch(x, y, mask)), expected)
