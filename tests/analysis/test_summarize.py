"""Selections of a run and statistics over seeds, against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from campaign import Campaign
from fedbayes.analysis.summarize import run_values
from fedbayes.io import EVALUATION_COLUMNS, ROUNDS_COLUMNS

NOTHING_TESTED = pd.DataFrame(columns=list(EVALUATION_COLUMNS))


def rounds_of(accuracies: list[float], model: str = "gm") -> pd.DataFrame:
    """Accuracy by round from 0 on; nll is 10 times the round, so that it tells where it was read."""
    rows: list[tuple[Any, ...]] = []
    for r, accuracy in enumerate(accuracies):
        rows.append((r, model, "clean", "pooled", "accuracy", accuracy))
        rows.append((r, model, "clean", "pooled", "nll", 10.0 * r))
    return pd.DataFrame(rows, columns=list(ROUNDS_COLUMNS))


def pick(values: pd.DataFrame, **wanted: str) -> pd.Series[Any]:
    for column, value in wanted.items():
        values = values[values[column] == value]
    assert len(values) == 1
    return values.iloc[0]


def test_best_is_the_first_highest_round_of_the_window_for_every_metric() -> None:
    rounds = rounds_of([0.9, 0.1, 0.5, 0.7, 0.7, 0.6])
    values = run_values(rounds, NOTHING_TESTED, (2, 5))
    best = pick(values, selection="best", metric="accuracy")
    assert (best["value"], best["round"]) == (0.7, "3")
    assert pick(values, selection="best", metric="nll")["value"] == 30.0


def test_both_ends_of_the_window_belong_to_it() -> None:
    rounds = rounds_of([0.0, 0.9, 0.5, 0.4, 0.8])
    assert pick(run_values(rounds, NOTHING_TESTED, (1, 3)), selection="best", metric="accuracy")["round"] == "1"
    assert pick(run_values(rounds, NOTHING_TESTED, (2, 4)), selection="best", metric="accuracy")["round"] == "4"


def test_last_and_mean_of_the_last_hundred() -> None:
    rounds = rounds_of([r / 1000 for r in range(151)])
    values = run_values(rounds, NOTHING_TESTED, (0, 150))
    assert pick(values, selection="last", metric="accuracy")["value"] == 0.15
    mean = pick(values, selection="mean100", metric="accuracy")
    assert mean["value"] == pytest.approx((51 + 150) / 2 / 1000)
    assert mean["round"] == "51-150"


def test_round_zero_is_not_in_the_mean_of_a_short_run() -> None:
    values = run_values(rounds_of([0.0, 0.4, 0.6]), NOTHING_TESTED, (0, 2))
    assert pick(values, selection="mean100", metric="accuracy")["value"] == pytest.approx(0.5)


def test_no_test_in_the_window_leaves_best_out() -> None:
    values = run_values(rounds_of([0.0, 0.4]), NOTHING_TESTED, (5, 9))
    assert set(values["selection"]) == {"last", "mean100"}


def test_a_model_not_followed_comes_from_the_evaluation() -> None:
    tested = [
        (state, 7, "pm", "clean", client, 10, metric, value)
        for state in ("last", "best-gm")
        for metric, values in (("accuracy", (0.6, 0.5, 0.7)), ("nll", (1.0, 2.0, 0.4)))
        for client, value in zip((-1, 0, 1), values, strict=True)
    ]
    evaluation = pd.DataFrame(tested, columns=list(EVALUATION_COLUMNS))
    values = run_values(rounds_of([0.1, 0.2]), evaluation, (0, 1))
    personal = values[values["model"] == "pm"]
    assert set(personal["selection"]) == {"last"}
    found = {(row.metric, row.scope): row.value for row in personal.itertuples()}
    assert found == {
        ("accuracy", "pooled"): 0.6,
        ("accuracy", "mean"): pytest.approx(0.6),
        ("accuracy", "worst"): 0.5,
        ("nll", "pooled"): 1.0,
        ("nll", "mean"): pytest.approx(1.2),
        ("nll", "worst"): 2.0,
    }
    assert set(personal["round"]) == {"7"}


def test_statistics_over_three_seeds(full: Campaign) -> None:
    summary = pd.read_parquet(full.summary)
    row = pick(summary, setting="mnist-small", model="gm", scope="pooled", metric="accuracy", selection="best")
    # Seeds give 0.899, 0.909, 0.919 at round 798; the 97.5 % quantile of Student's t with 2 degrees is 4.30265.
    half = 4.30265 * 0.01 / math.sqrt(3)
    assert row["mean"] == pytest.approx(0.909)
    assert row["std"] == pytest.approx(0.01)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((0.909 - half, 0.909 + half), abs=1e-6)
    assert (row["seeds"], row["seed_list"], row["round"]) == (3, "0 1 2", "798 798 798")
    assert len(row["runs"].split()) == 3


def test_one_seed_has_no_spread(smoke: Campaign) -> None:
    summary = pd.read_parquet(smoke.summary)
    row = pick(summary, model="gm", scope="pooled", metric="accuracy", selection="best")
    assert row["mean"] == pytest.approx(0.86)
    assert all(math.isnan(row[column]) for column in ("std", "ci_low", "ci_high"))
    assert (row["dataset_title"], row["stand_in_for"]) == ("MNIST-5k", "MNIST")


def test_worst_client_and_training_loss_are_there(smoke: Campaign) -> None:
    summary = pd.read_parquet(smoke.summary)
    worst = pick(summary, model="gm", scope="worst", metric="accuracy", selection="best")
    assert worst["mean"] == pytest.approx(0.81)
    assert pick(summary, model="train", metric="loss", selection="last")["mean"] == pytest.approx(0.1)
