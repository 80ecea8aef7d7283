"""Runs to one tidy summary per paper: mean, spread and interval over seeds.

A value is taken from a run in three ways (`selection`):

- `best`: of the model's own best state, which training keeps: the first round, within the paper's window, where its
  pooled clean accuracy is highest. For accuracy this is the paper's "highest accuracy"; other metrics are taken at the
  same round. A model without such a state (not followed over the rounds, or not tested in the window) has no `best`.
- `last`: of the last state.
- `mean100`: mean over the last 100 rounds, without round 0 (nothing is trained then); NaN where there are fewer.

`best` and `last` come from `evaluation.parquet`, so that a metric that is evaluated again reaches every table;
`rounds.parquet` gives `mean100` and the training loss. What is relative to another run (a cell's `baseline`) is worked
out here from `predictions.parquet` of both. What a run cost (`run_cost.py`) stands beside its
tests, under the selection `run`. A run that diverged counts like any other; `diverged` says so. The model it ended with
stands for all later rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from fedbayes.analysis.display import count
from fedbayes.analysis.false_accepts import METRIC, relative_values
from fedbayes.analysis.run_cost import cost_values, factors
from fedbayes.io import COST, TRAITS, followed_model, read_json, write_with

# What a cell of the plan is, apart from its seed; all of it is carried through.
CELL = ["paper", "experiment", "setting", "variant", "method", "preset", "scale", "dataset", "dataset_title"]
CELL += ["stand_in_for", "marks", "reduction", "published_table", "published_dataset", "published_setting"]
CELL += ["published_condition", "experiment_title", "setting_title", "own_table"]
VALUE = ["model", "condition", "scope", "metric"]
TRAINING = "train"  # stands in the place of the model where a row is about training itself
STATISTICS = ["mean", "std", "ci_low", "ci_high", "seeds", "seed_list", "round", "runs", "diverged"]
COLUMNS = [*CELL, *VALUE, "selection", *STATISTICS]
LAST_ROUNDS = 100
CONFIDENCE = 0.95


def summarize(index_csv: Path, root: Path, out: Path) -> None:
    """Write the summary of one paper.

    Args:
        index_csv: the paper's cells, one row per seed.
        root: the folder that the index's `folder` column starts from.
        out: the Parquet file to write.
    """
    values = [_cell_values(cell, root) for _, cell in read_index(index_csv).iterrows()]
    if values:
        by_seed = pd.concat(values, ignore_index=True)
        summary = over_seeds(pd.concat([by_seed, factors(by_seed)], ignore_index=True))
    else:
        summary = pd.DataFrame(columns=COLUMNS)
    write_with(out, partial(summary.to_parquet, index=False))


def read_index(index_csv: Path) -> pd.DataFrame:
    """The cells of a paper as the plan wrote them; names stay text even where they look like numbers."""
    index = pd.read_csv(index_csv, dtype=str, keep_default_na=False)
    counts = ["seed", "window_first", "window_last", "rounds"]
    return index.astype(dict.fromkeys(counts, int))


def over_seeds(by_seed: pd.DataFrame) -> pd.DataFrame:
    """Mean, spread and 95 % Student t interval over seeds of `value`; a NaN of any seed stays visible as NaN."""
    groups = by_seed.sort_values("seed", kind="stable").groupby([*CELL, *VALUE, "selection"], sort=False)
    rows = groups.agg(
        mean=("value", lambda values: values.mean(skipna=False)),
        std=("value", lambda values: values.std(ddof=1, skipna=False)),
        seeds=("seed", "size"),
        seed_list=("seed", lambda seeds: " ".join(map(str, seeds))),
        round=("round", " ".join),
        runs=("run", " ".join),
        diverged=("diverged", divergence),
    ).reset_index()
    # One seed has no spread: freedom 1 stands in, the NaN of std makes the interval NaN.
    freedom = np.maximum(rows["seeds"] - 1, 1)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * rows["std"] / np.sqrt(rows["seeds"])
    rows["ci_low"], rows["ci_high"] = rows["mean"] - half, rows["mean"] + half
    return rows[COLUMNS]


def _cell_values(cell: pd.Series[str], root: Path) -> pd.DataFrame:
    """All selected values of one run, with the cell's own columns beside them."""
    folder = root / cell["folder"]
    rounds, evaluation = (pd.read_parquet(folder / f"{name}.parquet") for name in ("rounds", "evaluation"))
    record = read_json(folder / "run.json")
    diverged, costs = _diverged_at(record), cost_values(record, evaluation)
    if diverged:
        evaluation = stand_still(rounds, evaluation, (int(cell["window_first"]), int(cell["window_last"])))
    values = pd.concat([run_values(rounds, evaluation), costs], ignore_index=True)
    if cell["baseline"]:
        values = pd.concat([values, relative_to(root / cell["baseline"], folder, evaluation)], ignore_index=True)
    return values.assign(diverged=diverged, **{column: cell[column] for column in [*CELL, "seed", "run"]})


def relative_to(baseline: Path, folder: Path, evaluation: pd.DataFrame) -> pd.DataFrame:
    """Relative false accepts of a run in the rows that `run_values` makes: pooled, of best and last states.

    The baseline stands at its own best or last state. The condition is the group of samples, such as `normal-A`.

    Args:
        baseline: folder of the run it is compared with.
        folder: its own.
        evaluation: its `evaluation.parquet`.
    """
    predictions, theirs = (pd.read_parquet(place / "predictions.parquet") for place in (folder, baseline))
    rounds = evaluation.drop_duplicates("state").set_index("state")["round"]
    parts = [
        relative_values(rows, theirs[theirs["state"] == ("last" if state == "last" else "best-gm")]).assign(
            scope="pooled", metric=METRIC, selection="last" if state == "last" else "best", round=str(rounds[state])
        )
        for state, rows in predictions.groupby("state")
    ]
    return pd.concat(parts, ignore_index=True)


def stand_still(rounds: pd.DataFrame, evaluation: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """The evaluation of a diverged run, the last state standing for best states it did not live to reach.

    Its rounds repeat the values of the model it diverged to, so a model whose rounds reach the window has a best there.
    """
    reached = sorted(set(rounds.loc[rounds["round"].between(*window), "model"]) & set(evaluation["model"]))
    missing = [model for model in reached if f"best-{model}" not in set(evaluation["state"])]
    last = evaluation[evaluation["state"] == "last"]
    belongs = last["model"].map(followed_model)
    standing: list[pd.DataFrame] = [last[belongs == model].assign(state=f"best-{model}") for model in missing]
    return pd.concat([evaluation, *standing], ignore_index=True)


def divergence(rounds: Iterable[str]) -> str:
    """`2 of 3 seeds diverged (rounds 12, 40)`; empty if none did.

    Args:
        rounds: for each seed the round it diverged at, empty where it did not.
    """
    of_seeds = list(rounds)
    at = [round_ for round_ in of_seeds if round_]
    if not at:
        return ""
    plural = "" if len(at) == 1 else "s"
    return f"{len(at)} of {count(len(of_seeds), 'seed')} diverged (round{plural} {', '.join(at)})"


def _diverged_at(record: Mapping[str, Any]) -> str:
    """The round a run diverged at, as text; empty if it finished, `unknown` in records that do not say."""
    if record["outcome"] != "diverged":
        return ""
    return str((record.get("diverged") or {}).get("round", "unknown"))


def run_values(rounds: pd.DataFrame, evaluation: pd.DataFrame) -> pd.DataFrame:
    """Columns model, condition, scope, metric, selection, round (as text) and value of one run."""
    tested = evaluation[evaluation["model"] != COST]
    parts = [part for _, model in tested.groupby("model", sort=False) for part in _from_evaluation(model)]
    parts += [_mean_of_last(model) for _, model in rounds.groupby("model", sort=False)]
    parts.append(_last_training(rounds))
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def _mean_of_last(rows: pd.DataFrame) -> pd.DataFrame:
    """`mean100` of one model; NaN for a run of fewer rounds, which says all the same that the model was followed."""
    last = int(rows["round"].max())
    first = max(1, last - LAST_ROUNDS + 1)
    tail = rows[rows["round"] >= first]
    means = tail.groupby(VALUE, sort=False)["value"].agg(lambda values: values.mean(skipna=False)).reset_index()
    if last < LAST_ROUNDS:
        means["value"] = float("nan")
    return means.assign(selection=f"mean{LAST_ROUNDS}", round=f"{first}-{last}")


def _last_training(rounds: pd.DataFrame) -> pd.DataFrame:
    """`last` of what training itself reports; no evaluation has it."""
    rows = rounds[rounds["model"] == TRAINING]
    found: pd.DataFrame = rows.loc[rows["round"] == rows["round"].max(), [*VALUE, "round", "value"]]
    return found.assign(selection="last", round=found["round"].astype(str))


def _from_evaluation(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """`last`, and `best` where the model has a best state; `pm-mean` and clients' traits stand at the best of `pm`."""
    model = followed_model(rows["model"].iloc[0])
    kept = f"best-{'pm' if model == TRAITS else model}"
    for selection, state in (("best", kept), ("last", "last")):
        at = rows[rows["state"] == state]
        # A trait of clients, such as a rank, has a mean and no worst.
        for scope in ("mean",) if model == TRAITS else ("pooled", "mean", "worst"):
            yield _scope(at, scope).assign(selection=selection)


def _scope(rows: pd.DataFrame, scope: str) -> pd.DataFrame:
    """Pooled values as they stand (client -1), or the mean or the worst over clients."""
    if scope == "pooled":
        found = rows[rows["client"] == -1]
    else:
        clients = rows[rows["client"] >= 0]
        keys = ["round", "model", "condition", "metric"]
        found = pd.DataFrame(
            [
                (*key, values.mean(skipna=False) if scope == "mean" else _worst(values, str(key[-1])))
                for key, values in clients.groupby(keys, sort=False)["value"]
            ],
            columns=[*keys, "value"],
        )
    return found.assign(scope=scope, round=found["round"].astype(str))[[*VALUE, "round", "value"]]


def _worst(values: pd.Series[float], metric: str) -> float:
    return float(values.min(skipna=False) if metric == "accuracy" else values.max(skipna=False))
