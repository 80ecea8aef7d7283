"""Metrics against examples by hand, scikit-learn, and a plain loop over bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss

from fedbayes.bayes.calibration import calibration_gaps
from fedbayes.evaluation.metrics import METRICS


def one(name: str, probs: torch.Tensor, labels: torch.Tensor) -> float:
    return float(METRICS[name](probs, labels, torch.zeros_like(labels), 1))


def random_case(n: int = 400, classes: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    stream = np.random.default_rng(seed)
    probs = torch.tensor(stream.dirichlet(np.full(classes, 0.4), size=n))
    return probs, torch.tensor(stream.integers(classes, size=n))


def ece_by_hand(probs: torch.Tensor, labels: torch.Tensor, bins: int) -> tuple[float, float]:
    """ECE and MCE with a loop over bins (low, high]."""
    confidence, top = probs.max(1)
    gaps, ece = [0.0], 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins)
        if inside.any():
            gap = abs(float((top == labels)[inside].double().mean()) - float(confidence[inside].mean()))
            gaps.append(gap)
            ece += float(inside.double().mean()) * gap
    return ece, max(gaps)


def test_four_points_by_hand() -> None:
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 0])
    assert one("accuracy", probs, labels) == 0.75
    assert one("nll", probs, labels) == pytest.approx(-sum(map(math.log, (0.9, 0.2, 0.7, 0.6))) / 4)
    assert one("brier", probs, labels) == pytest.approx((2 * 0.01 + 2 * 0.64 + 2 * 0.09 + 2 * 0.16) / 4)
    # Ten bins hold one point each: gaps 0.1, 0.8, 0.3, 0.4.
    assert one("ece10", probs, labels) == pytest.approx((0.1 + 0.8 + 0.3 + 0.4) / 4)
    assert one("mce15", probs, labels) == pytest.approx(0.8)


def test_against_scikit_learn() -> None:
    probs, labels = random_case()
    assert one("nll", probs, labels) == pytest.approx(log_loss(labels, probs, labels=range(5)))
    binary, truth = random_case(classes=2)
    # scikit-learn's binary Brier score counts one class, ours both.
    assert one("brier", binary, truth) == pytest.approx(2 * brier_score_loss(truth, binary[:, 1]))


@pytest.mark.parametrize(("ece", "bins"), [("ece10", 10), ("ece15", 15)])
def test_calibration_against_a_loop_over_bins(ece: str, bins: int) -> None:
    probs, labels = random_case(seed=3)
    expected, largest = ece_by_hand(probs, labels, bins)
    assert one(ece, probs, labels) == pytest.approx(expected)
    assert one(f"mce{bins}", probs, labels) == pytest.approx(largest)


def test_groups_at_once_equal_groups_alone() -> None:
    probs, labels = random_case()
    groups = torch.arange(400) % 7
    for name, metric in METRICS.items():
        together = metric(probs, labels, groups, 7)
        alone = [one(name, probs[groups == g], labels[groups == g]) for g in range(7)]
        assert together.tolist() == pytest.approx(alone)


def test_perfect_and_certain_predictions_are_calibrated() -> None:
    labels = torch.tensor([0, 1, 2, 1])
    probs = torch.eye(3)[labels]
    assert {name: one(name, probs, labels) for name in METRICS} == pytest.approx(
        {"accuracy": 1, "nll": 0, "brier": 0, "ece10": 0, "ece15": 0, "mce10": 0, "mce15": 0}
    )


def test_certain_and_wrong_is_bounded() -> None:
    assert one("nll", torch.tensor([[1.0, 0.0]]), torch.tensor([1])) == pytest.approx(-math.log(1e-12))


def test_an_empty_group_has_no_value() -> None:
    probs, labels = random_case(10)
    for metric in METRICS.values():
        assert math.isnan(float(metric(probs, labels, torch.zeros_like(labels), 2)[1]))


def test_shares_of_bins_add_up() -> None:
    probs, labels = random_case()
    _, shares = calibration_gaps(probs, labels, torch.zeros_like(labels), 1, 15)
    assert float(shares.sum()) == pytest.approx(1)
