"""AUROC by ranks against every pair, and what it is asked about: wrong predictions and outsiders."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import norm

from fedbayes.evaluation.doubt import auroc, by_resemblance, outsiders_from_known, wrong_from_right
from fedbayes.evaluation.evaluate import Predictions


def by_pairs(sought: list[float], others: list[float]) -> float:
    wins = [1.0 if s > o else 0.5 if s == o else 0.0 for s in sought for o in others]
    return sum(wins) / len(wins)


def predictions(probs: list[list[float]], labels: list[int], parts: list[list[float]] | None = None) -> Predictions:
    number = len(labels)
    uncertainty = torch.tensor(parts) if parts else torch.empty(number, 0)
    ids = torch.arange(number)
    return Predictions(torch.tensor(probs), torch.tensor(labels), torch.zeros_like(ids), uncertainty, ids)


def test_ties_count_half() -> None:
    # Pairs: 3 above 1, 2, 2 and level with 3; 2 above 1 and level with both 2.
    assert auroc(torch.tensor([3.0, 2.0]), torch.tensor([2.0, 1.0, 3.0, 2.0])) == (3 + 0.5 + 1 + 2 * 0.5) / 8


@pytest.mark.parametrize("seed", range(3))
def test_ranks_give_what_all_pairs_give(seed: int) -> None:
    stream = torch.Generator().manual_seed(seed)
    sought, others = (torch.randint(6, (size,), generator=stream).double() / 5 for size in (13, 29))
    assert auroc(sought, others) == pytest.approx(by_pairs(sought.tolist(), others.tolist()), abs=1e-12)


def test_normal_scores_give_the_closed_form() -> None:
    stream = torch.Generator().manual_seed(0)
    sought, others = torch.randn(20_000, generator=stream) + 1.0, torch.randn(20_000, generator=stream)
    assert auroc(sought, others) == pytest.approx(norm.cdf(1 / math.sqrt(2)), abs=0.01)


def test_nothing_to_find_or_nothing_else_has_no_value() -> None:
    some, none = torch.tensor([0.3]), torch.empty(0)
    assert math.isnan(auroc(none, some)) and math.isnan(auroc(some, none))


def test_wrong_predictions_are_sought_by_every_score_there_is() -> None:
    # Right with 0.9 and 0.6, wrong with 0.7: less sure than one of the right ones and surer than the other.
    probs, labels = [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1]
    assert wrong_from_right(predictions(probs, labels)) == {"auroc-wrong-confidence": 0.5}
    parts = [[0.1, 0.0, 0.2, 0.0], [0.1, 0.0, 0.3, 0.0], [0.2, 0.0, 0.1, 0.0]]
    found = wrong_from_right(predictions(probs, labels, parts))
    assert (found["auroc-wrong-aleatoric-trace"], found["auroc-wrong-epistemic-trace"]) == (1.0, 0.0)
    assert found["auroc-wrong-aleatoric-predicted"] == 0.5


def test_outsiders_are_sought_among_known_samples_and_their_means_stand_beside() -> None:
    known = predictions([[0.9, 0.1], [0.8, 0.2]], [0, 0], [[0.1, 0.1, 0.1, 0.1]] * 2)
    outside = predictions([[0.5, 0.5], [0.85, 0.15]], [40, 50], [[0.4, 0.1, 0.3, 0.1], [0.2, 0.1, 0.1, 0.1]])
    found = outsiders_from_known(outside, known)
    assert found["auroc-ood-confidence"] == 0.75 and found["auroc-ood-epistemic-trace"] == 0.75
    assert found["aleatoric-trace"] == pytest.approx(0.3) and "confidence" not in found
    assert set(outsiders_from_known(predictions([[0.5, 0.5]], [7]), predictions([[0.9, 0.1]], [0]))) == {
        "auroc-ood-confidence"
    }


def test_outsiders_that_resemble_a_known_class_can_be_told_apart() -> None:
    outside = predictions([[0.5, 0.5]] * 3, [40, 50, 60])
    parts = by_resemblance(outside, torch.tensor([False, True, False]))
    assert {name: own.labels.tolist() for name, own in parts.items()} == {
        "outsiders": [40, 50, 60],
        "outsiders-alike": [50],
        "outsiders-unlike": [40, 60],
    }
    assert set(by_resemblance(outside, torch.zeros(3, dtype=torch.bool))) == {"outsiders", "outsiders-unlike"}
