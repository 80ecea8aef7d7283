"""Selections of a run and statistics over seeds, against numbers worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from campaign import Campaign, diverge, make_campaign
from fedbayes.analysis.summarize import divergence, run_values, stand_still
from fedbayes.io import EVALUATION_COLUMNS, ROUNDS_COLUMNS

PLACES = {"last": 9, "best-gm": 7, "best-pm": 5}  # states and their rounds


def rounds_of(accuracies: list[float], model: str = "gm") -> pd.DataFrame:
    """Accuracy by round from 0 on; nll is 10 times the round, so that it tells where it was read."""
    rows: list[tuple[Any, ...]] = []
    for r, accuracy in enumerate(accuracies):
        rows.append((r, model, "clean", "pooled", "accuracy", accuracy))
        rows.append((r, model, "clean", "pooled", "nll", 10.0 * r))
    return pd.DataFrame(rows, columns=list(ROUNDS_COLUMNS))


def evaluation_of(states: tuple[str, ...], models: tuple[str, ...] = ("pm", "gm")) -> pd.DataFrame:
    """Two clients; every value tells its state by the hundreds and its model by the thousands."""
    rows = [
        (state, round_, model, "clean", client, 10, metric, 1000.0 * (model == "pm") + 100 * round_ + value)
        for state, round_ in PLACES.items()
        if state in states
        for model in models
        for metric, values in (("accuracy", (0.6, 0.5, 0.7)), ("nll", (1.0, 2.0, 0.4)))
        for client, value in zip((-1, 0, 1), values, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(EVALUATION_COLUMNS))


def pick(values: pd.DataFrame, **wanted: str) -> pd.Series[Any]:
    for column, value in wanted.items():
        values = values[values[column] == value]
    assert len(values) == 1
    return values.iloc[0]


@pytest.mark.parametrize(
    ("model", "selection", "at", "offset"),
    [("gm", "best", 7, 700), ("gm", "last", 9, 900), ("pm", "best", 5, 1500), ("pm", "last", 9, 1900)],
)
def test_best_and_last_of_a_followed_model_come_from_the_evaluation(
    model: str, selection: str, at: int, offset: int
) -> None:
    rounds = pd.concat([rounds_of([0.9, 0.1, 0.5], "gm"), rounds_of([0.9, 0.1, 0.5], "pm")])
    values = run_values(rounds, evaluation_of(("last", "best-gm", "best-pm")))
    own = values[(values["model"] == model) & (values["selection"] == selection)]
    found = {(row.metric, row.scope): row.value - offset for row in own.itertuples()}
    assert found == {
        ("accuracy", "pooled"): pytest.approx(0.6),
        ("accuracy", "mean"): pytest.approx(0.6),
        ("accuracy", "worst"): pytest.approx(0.5),
        ("nll", "pooled"): pytest.approx(1.0),
        ("nll", "mean"): pytest.approx(1.2),
        ("nll", "worst"): pytest.approx(2.0),
    }
    assert set(own["round"]) == {str(at)}


def test_the_mean_of_the_last_hundred_comes_from_the_rounds() -> None:
    rounds = rounds_of([r / 1000 for r in range(151)])
    mean = pick(run_values(rounds, evaluation_of(("last",))), selection="mean100", metric="accuracy")
    assert mean["value"] == pytest.approx((51 + 150) / 2 / 1000)
    assert mean["round"] == "51-150"


def test_round_zero_is_not_in_that_mean_and_shorter_runs_have_none() -> None:
    for rounds, expected in (([0.0] + [0.4, 0.6] * 50, 0.5), ([0.0] + [0.4] * 99, float("nan"))):
        values = run_values(rounds_of(rounds), evaluation_of(("last",)))
        mean = pick(values, selection="mean100", metric="accuracy")
        assert mean["value"] == pytest.approx(expected, nan_ok=True), "the row stays: it says what was followed"


def test_a_followed_model_without_a_best_state_has_no_best() -> None:
    values = run_values(rounds_of([0.0, 0.4]), evaluation_of(("last",)))
    assert set(values.loc[values["model"] == "gm", "selection"]) == {"last", "mean100"}


def test_another_models_best_state_is_not_ones_own() -> None:
    values = run_values(rounds_of([0.1, 0.2]), evaluation_of(("last", "best-gm")))
    assert set(values.loc[values["model"] == "pm", "selection"]) == {"last"}
    assert set(values.loc[values["model"] == "gm", "selection"]) == {"best", "last", "mean100"}


def test_a_metric_that_only_the_evaluation_has_is_there() -> None:
    evaluation = evaluation_of(("last", "best-gm")).replace({"metric": {"nll": "new"}})
    values = run_values(rounds_of([0.1, 0.2]), evaluation)
    assert pick(values, model="gm", metric="new", selection="best", scope="pooled")["value"] == 701.0


@pytest.mark.parametrize(
    ("window", "selections"), [((1, 3), {"best", "last", "mean100"}), ((5, 9), {"last", "mean100"})]
)
def test_the_model_a_run_diverged_to_stands_for_the_rounds_left(window: tuple[int, int], selections: set[str]) -> None:
    rounds = rounds_of([0.5, 0.1, 0.1, 0.1])
    evaluation = stand_still(rounds, evaluation_of(("last",)), window)
    values = run_values(rounds, evaluation)
    own = values[values["model"] == "gm"]
    assert set(own["selection"]) == selections
    if "best" in selections:
        best = pick(own, selection="best", metric="nll", scope="worst")
        assert (best["value"], best["round"]) == (902.0, "9")
    assert set(values.loc[values["model"] == "pm", "selection"]) == {"last"}  # not followed


def test_a_best_state_reached_before_diverging_stays() -> None:
    evaluation = evaluation_of(("last", "best-gm"))
    assert stand_still(rounds_of([0.5, 0.1, 0.1]), evaluation, (0, 2)).equals(evaluation)


@pytest.mark.parametrize(
    ("rounds", "text"),
    [
        (["", "", ""], ""),
        (["", "12", "40"], "2 of 3 seeds diverged (rounds 12, 40)"),
        (["", "12"], "1 of 2 seeds diverged (round 12)"),
        (["unknown"], "1 of 1 seed diverged (round unknown)"),
    ],
)
def test_divergence_in_words(rounds: list[str], text: str) -> None:
    assert divergence(rounds) == text


def test_the_summary_says_which_seeds_diverged_and_keeps_their_values(diverged: Campaign) -> None:
    summary = pd.read_parquet(diverged.summary)
    by_setting = summary.groupby("setting")["diverged"].unique().map(list).to_dict()
    assert by_setting == {"mnist-small": ["2 of 3 seeds diverged (rounds 12, 40)"], "mnist-small-stratified": [""]}
    row = pick(summary, setting="mnist-small", model="gm", scope="pooled", metric="accuracy", selection="best")
    assert row["mean"] == pytest.approx(diverged.best + 0.01) and row["seeds"] == 3


def test_an_older_record_does_not_say_the_round(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, "smoke")
    diverge(campaign, {0: {}})
    assert set(pd.read_parquet(campaign.summary)["diverged"]) == {"1 of 1 seed diverged (round unknown)"}


def test_a_value_that_is_no_number_stays_none(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path, "reduced")
    run = next(cell.run for cell in campaign.cells if cell.setting == "mnist-small" and cell.seed == 1)
    file = tmp_path / run.folder / "evaluation.parquet"
    evaluation = pd.read_parquet(file)
    evaluation.loc[evaluation["metric"] == "nll", "value"] = math.nan
    evaluation.to_parquet(file)
    campaign.analyse()
    summary = pd.read_parquet(campaign.summary)
    same = {"setting": "mnist-small", "model": "gm", "scope": "worst", "selection": "best"}
    assert math.isnan(pick(summary, metric="nll", **same)["mean"])
    assert not math.isnan(pick(summary, metric="accuracy", **same)["mean"])


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
    assert row["mean"] == pytest.approx(smoke.best)
    assert all(math.isnan(row[column]) for column in ("std", "ci_low", "ci_high"))
    assert (row["dataset_title"], row["stand_in_for"]) == ("MNIST-5k", "MNIST")


def test_worst_client_and_training_loss_are_there(smoke: Campaign) -> None:
    summary = pd.read_parquet(smoke.summary)
    worst = pick(summary, model="gm", scope="worst", metric="accuracy", selection="best")
    assert worst["mean"] == pytest.approx(smoke.best)
    loss = pick(summary, model="train", metric="loss", selection="last")
    assert (loss["mean"], loss["round"]) == (pytest.approx(2.0 / smoke.rounds), str(smoke.rounds))


def test_a_model_reported_beside_another_stands_at_that_ones_best_state() -> None:
    rounds = pd.concat([rounds_of([0.9, 0.1, 0.5], "gm"), rounds_of([0.9, 0.1, 0.5], "pm")])
    values = run_values(rounds, evaluation_of(("last", "best-gm", "best-pm"), ("pm", "pm-mean", "gm")))
    best = pick(values, model="pm-mean", selection="best", scope="pooled", metric="accuracy")
    assert best["round"] == "5" and best["value"] == pytest.approx(500.6)


def test_a_diverged_seed_counts_for_models_reported_beside_another_too() -> None:
    rounds = pd.concat([rounds_of([0.5, 0.1, 0.1], "pm"), rounds_of([0.5, 0.1, 0.1], "gm")])
    found = stand_still(rounds, evaluation_of(("last",), ("pm", "pm-mean", "gm", "gm-mean")), (1, 2))
    best = found[found["state"].str.startswith("best-")]
    assert set(zip(best["state"], best["model"], strict=True)) == {
        ("best-pm", "pm"), ("best-pm", "pm-mean"), ("best-gm", "gm"), ("best-gm", "gm-mean"),
    }  # fmt: skip
