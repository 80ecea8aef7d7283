"""Relative false accepts: examples by hand, a search over thresholds, and what must not change them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedbayes.evaluation.false_accepts import false_accepts, relative_false_accepts

# Four keywords, then five other samples.
LABELS = torch.tensor([1, 1, 1, 1, 0, 0, 0, 0, 0])
# Misses one keyword at 0.5. Its highest threshold with one miss is 0.6, where it accepts two others (0.7 and 0.6).
BASELINE = torch.tensor([0.2, 0.6, 0.8, 0.9, 0.7, 0.6, 0.55, 0.1, 0.3])


def relative(scores: Tensor, baseline: Tensor = BASELINE, labels: Tensor = LABELS, threshold: float = 0.5) -> float:
    return float(relative_false_accepts(scores, baseline, labels, torch.zeros_like(labels), 1, threshold))


@pytest.mark.parametrize(
    ("scores", "value"),
    [
        # One miss at 0.4, where one other sample is accepted; that 0.5 would miss two does not count.
        ([0.1, 0.4, 0.45, 0.9, 0.8, 0.3, 0.2, 0.1, 0.0], 1 / 2),
        # Nothing but the missed keyword is below 0.7.
        ([0.1, 0.7, 0.8, 0.9, 0.7, 0.9, 0.8, 0.75, 0.7], 5 / 2),
        ([0.1, 0.7, 0.8, 0.9, 0.6, 0.6, 0.6, 0.6, 0.6], 0.0),
        # The two lowest keywords tie: no threshold misses one alone, so at 0.3 none is missed.
        ([0.3, 0.3, 0.8, 0.9, 0.3, 0.31, 0.2, 0.5, 0.1], 3 / 2),
    ],
)
def test_four_keywords_by_hand(scores: list[float], value: float) -> None:
    assert relative(torch.tensor(scores)) == value


def test_another_operating_point() -> None:
    # At 0.65 the baseline misses two keywords; the next is 0.8, above all others.
    assert math.isnan(relative(BASELINE, threshold=0.65))
    assert relative(torch.tensor([0.1, 0.2, 0.3, 0.9, 0.4, 0.3, 0.2, 0.2, 0.2]), threshold=0.65) == math.inf
    # At 0.1 it misses none and accepts what is at least 0.2: four.
    assert relative(torch.tensor([0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.1, 0.1, 0.1]), threshold=0.1) == 1 / 4


def test_a_baseline_that_misses_every_keyword_leaves_nothing_to_compare() -> None:
    assert math.isnan(relative(BASELINE, threshold=0.95))
    assert false_accepts(BASELINE, LABELS == 1, missed=4) == 0


def test_groups_are_judged_each_for_itself() -> None:
    better = torch.tensor([0.1, 0.4, 0.45, 0.9, 0.8, 0.3, 0.2, 0.1, 0.0])
    scores, baseline, labels = torch.cat([better, BASELINE]), BASELINE.repeat(2), LABELS.repeat(2)
    order = torch.randperm(18, generator=torch.Generator().manual_seed(0))
    groups = torch.tensor([2] * 9 + [0] * 9)
    found = relative_false_accepts(scores[order], baseline[order], labels[order], groups[order], 4)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([1.0, math.nan, 0.5, math.nan], nan_ok=True)


def test_what_cannot_be_judged_has_no_value() -> None:
    assert math.isnan(relative(BASELINE, labels=torch.zeros_like(LABELS))), "no keyword"
    assert math.isnan(relative(BASELINE, labels=torch.ones_like(LABELS))), "nothing but keywords"
    diverged = BASELINE.clone()
    diverged[6] = math.nan
    assert math.isnan(relative(diverged)) and math.isnan(relative(BASELINE, baseline=diverged))


# Few different values, so that ties are frequent.
SCORES = st.lists(st.integers(0, 12).map(lambda step: step / 12), min_size=12, max_size=12).map(
    lambda found: torch.tensor(found, dtype=torch.float64)
)
TRUTH = torch.tensor([1] * 5 + [0] * 7)


@given(SCORES)
def test_a_model_equal_to_the_baseline_has_one(scores: Tensor) -> None:
    value = relative(scores, scores, TRUTH)
    assert value == 1 or math.isnan(value)


@given(SCORES, SCORES, st.integers(0, 12))
def test_only_the_order_of_scores_counts(scores: Tensor, baseline: Tensor, step: int) -> None:
    threshold = step / 12
    expected = relative(scores, baseline, TRUTH, threshold)
    changed = relative(scores * scores - 2, 4 * baseline - 1, TRUTH, 4 * threshold - 1)
    assert changed == pytest.approx(expected, nan_ok=True)


@given(SCORES, st.integers(0, 5))
def test_the_threshold_is_the_largest_that_misses_no_more(scores: Tensor, missed: int) -> None:
    is_keyword = TRUTH == 1
    tried = [t / 24 for t in range(30)]
    allowed = [t for t in tried if int((scores[is_keyword] < t).sum()) <= missed]
    assert false_accepts(scores, is_keyword, missed) == int((scores[~is_keyword] >= max(allowed)).sum())
