"""Relative false accepts: examples by hand, a search over thresholds, and what must not change them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbayes.analysis.false_accepts import Scored, operate, relative_false_accepts, relative_values, scored

# Four keywords, then five other samples.
LABELS = [1, 1, 1, 1, 0, 0, 0, 0, 0]
# Its highest threshold with no miss is 0.2, where it accepts four others; with one miss 0.6, where it accepts two.
BASELINE = [0.2, 0.6, 0.8, 0.9, 0.7, 0.6, 0.55, 0.1, 0.3]
# No miss at 0.1, where four others are accepted; one at 0.4, where one is. That 0.5 would miss two does not count.
BETTER = [0.1, 0.4, 0.45, 0.9, 0.8, 0.3, 0.2, 0.1, 0.0]
# No miss at 0.5, where one other sample is accepted.
SHARP = [0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.1, 0.1, 0.1]


def samples(scores: Sequence[float], labels: Sequence[int] = LABELS) -> Scored:
    return Scored(np.array(scores), np.array(labels) == 1)


def relative(
    scores: Sequence[float],
    baseline: Sequence[float] = BASELINE,
    labels: Sequence[int] = LABELS,
    misses: float = 0.25,
) -> float:
    return relative_false_accepts(samples(scores, labels), samples(baseline, labels), misses)


@pytest.mark.parametrize(
    ("scores", "value"),
    [
        (BETTER, 1 / 2),
        # Nothing but the missed keyword is below 0.7.
        ([0.1, 0.7, 0.8, 0.9, 0.7, 0.9, 0.8, 0.75, 0.7], 5 / 2),
        ([0.1, 0.7, 0.8, 0.9, 0.6, 0.6, 0.6, 0.6, 0.6], 0.0),
        # The two lowest keywords tie: no threshold misses one alone, so at 0.3 none is missed.
        ([0.3, 0.3, 0.8, 0.9, 0.3, 0.31, 0.2, 0.5, 0.1], 3 / 2),
    ],
)
def test_four_keywords_by_hand(scores: list[float], value: float) -> None:
    assert relative(scores) == value


def test_another_operating_point() -> None:
    # With two misses the next keyword is 0.8, above all others.
    assert math.isnan(relative(BASELINE, misses=0.5))
    assert relative([0.1, 0.2, 0.3, 0.9, 0.4, 0.3, 0.2, 0.2, 0.2], misses=0.5) == math.inf
    # A twentieth of four keywords is none: the baseline accepts what is at least 0.2, which is four.
    assert relative_false_accepts(samples(SHARP), samples(BASELINE)) == 1 / 4


def test_a_baseline_that_may_miss_every_keyword_leaves_nothing_to_compare() -> None:
    assert math.isnan(relative(BASELINE, misses=1.0))
    assert operate(samples(BASELINE), allowed=4) == (4, 0)


def test_a_model_may_miss_what_the_baseline_misses_and_not_what_it_might_have_missed() -> None:
    # Two keywords of the baseline tie at the bottom, so that it misses none: it accepts all but one.
    tied = [0.2, 0.2, 0.8, 0.9, 0.7, 0.6, 0.55, 0.1, 0.3]
    assert operate(samples(tied), allowed=1) == (0, 4)
    assert relative(BETTER, tied) == 4 / 4


def test_the_order_of_samples_does_not_count() -> None:
    order = np.random.default_rng(0).permutation(9)
    shuffled = Scored(np.array(SHARP)[order], (np.array(LABELS) == 1)[order])
    assert relative_false_accepts(shuffled, samples(BASELINE)) == 1 / 4


def test_what_cannot_be_judged_has_no_value() -> None:
    assert math.isnan(relative(BASELINE, labels=[0] * 9)), "no keyword"
    assert math.isnan(relative(BASELINE, labels=[1] * 9)), "nothing but keywords"
    diverged = [*BASELINE[:6], math.nan, *BASELINE[7:]]
    assert math.isnan(relative(diverged)) and math.isnan(relative(BASELINE, baseline=diverged))


def predicted(scores: Sequence[float], group: str, model: str = "gm") -> pd.DataFrame:
    """What `predictions.parquet` holds of these scores."""
    rows: list[dict[str, Any]] = [
        {"model": model, "group": group, "label": label, "predicted": int(p >= 0.5), "confidence": max(p, 1 - p),
         "runner-up": min(p, 1 - p)}
        for p, label in zip(scores, LABELS, strict=True)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_a_score_is_the_log_odds_of_the_keyword_whatever_was_predicted() -> None:
    found = scored(predicted(BASELINE, "normal-A"))
    assert found.scores == pytest.approx([math.log(p / (1 - p)) for p in BASELINE])
    assert found.is_keyword.tolist() == [label == 1 for label in LABELS]


def test_samples_that_a_model_is_very_sure_of_keep_their_order() -> None:
    """One keyword is missed: by probabilities in float32 it would tie with all others at 0, which were all accepted."""
    sure = pd.DataFrame({"label": [1, 1, 0, 0], "predicted": [0, 1, 0, 0], "confidence": np.ones(4, np.float32)})
    found = scored(sure.assign(**{"runner-up": np.array([1e-12, 1e-9, 1e-20, 1e-11], np.float32)}))
    assert operate(found, allowed=0) == (0, 1) and operate(found, allowed=1) == (1, 0)


def test_groups_and_models_are_judged_each_for_itself_against_the_global_baseline() -> None:
    own = predicted(SHARP, "alarm-B", "pm")
    ours = pd.concat([predicted(SHARP, "normal-A"), predicted(BASELINE, "alarm-B"), own])
    theirs = pd.concat([predicted(BASELINE, "alarm-B"), predicted(BASELINE, "normal-A"), own])
    values = relative_values(ours.sample(frac=1, random_state=1), theirs)
    found = values.set_index(["model", "condition"])["value"].to_dict()
    assert found == {("gm", "normal-A"): 0.25, ("gm", "alarm-B"): 1.0, ("pm", "alarm-B"): 0.25}


# Few different values, so that ties are frequent.
SCORES = st.lists(st.integers(0, 12).map(lambda step: step / 12), min_size=12, max_size=12)
TRUTH = [1] * 5 + [0] * 7


@given(SCORES)
def test_a_model_equal_to_the_baseline_has_one(scores: list[float]) -> None:
    value = relative(scores, scores, TRUTH)
    assert value == 1 or math.isnan(value)


@given(SCORES, SCORES, st.integers(0, 5))
def test_only_the_order_of_scores_counts(scores: list[float], baseline: list[float], missed: int) -> None:
    expected = relative(scores, baseline, TRUTH, missed / 5)
    changed = relative([s * s - 2 for s in scores], [4 * s - 1 for s in baseline], TRUTH, missed / 5)
    assert changed == pytest.approx(expected, nan_ok=True)


@given(SCORES, st.integers(0, 5))
def test_the_threshold_is_the_largest_that_misses_no_more(scores: list[float], allowed: int) -> None:
    found = samples(scores, TRUTH)
    misses = {t / 24: int((found.scores[found.is_keyword] < t / 24).sum()) for t in range(30)}
    threshold = max(t for t, missed in misses.items() if missed <= allowed)
    accepted = int((found.scores[~found.is_keyword] >= threshold).sum())
    assert operate(found, allowed) == (misses[threshold], accepted)
