"""Runs to one tidy summary per paper: mean, spread and interval over seeds.

A value is taken from a run in three ways (`selection`):

- `best`: at the round, within the paper's window, where the pooled clean accuracy of that model is highest (the first
  such round). For accuracy this is the paper's "highest accuracy"; other metrics are taken at the same round.
- `last`: at the last round.
- `mean100`: mean over the last 100 rounds, without round 0 (nothing is trained then).

A model that was not followed over the rounds but tested afterwards (FedAvg fine-tuned on each client, say) comes from
`evaluation.parquet`: `last` from the last state, `best` from that model's own best state where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from fedbayes.io import write_with

# What a cell of the plan is, apart from its seed; all of it is carried through.
CELL = ["paper", "experiment", "setting", "variant", "method", "preset", "scale", "dataset", "dataset_title"]
CELL += ["stand_in_for", "reduction", "published_table", "published_dataset", "published_setting"]
VALUE = ["model", "condition", "scope", "metric"]
LAST_ROUNDS = 100
CONFIDENCE = 0.95


def summarize(index_csv: Path, root: Path, out: Path) -> None:
    """Write the summary of one paper.

    Args:
        index_csv: the paper's cells, one row per seed.
        root: the folder that the index's `folder` column starts from.
        out: the Parquet file to write.
    """
    index = read_index(index_csv)
    by_seed = pd.concat([_cell_values(cell, root) for _, cell in index.iterrows()], ignore_index=True)
    write_with(out, partial(over_seeds(by_seed).to_parquet, index=False))


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
    ).reset_index()
    # One seed has no spread: freedom 1 stands in, the NaN of std makes the interval NaN.
    freedom = np.maximum(rows["seeds"] - 1, 1)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * rows["std"] / np.sqrt(rows["seeds"])
    rows["ci_low"], rows["ci_high"] = rows["mean"] - half, rows["mean"] + half
    numbers = ["mean", "std", "ci_low", "ci_high", "seeds", "seed_list", "round", "runs"]
    return rows[[*CELL, *VALUE, "selection", *numbers]]


def _cell_values(cell: pd.Series[str], root: Path) -> pd.DataFrame:
    """All selected values of one run, with the cell's own columns beside them."""
    folder = root / cell["folder"]
    values = run_values(
        pd.read_parquet(folder / "rounds.parquet"),
        pd.read_parquet(folder / "evaluation.parquet"),
        (int(cell["window_first"]), int(cell["window_last"])),
    )
    return values.assign(**{column: cell[column] for column in [*CELL, "seed", "run"]})


def run_values(rounds: pd.DataFrame, evaluation: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """Columns model, condition, scope, metric, selection, round (as text) and value of one run."""
    parts = [part for _, model in rounds.groupby("model", sort=False) for part in _from_rounds(model, window)]
    followed = set(rounds["model"])
    tested = evaluation[~evaluation["model"].isin(followed)]
    parts += [part for _, model in tested.groupby("model", sort=False) for part in _from_evaluation(model)]
    return pd.concat(parts, ignore_index=True)


def _from_rounds(rows: pd.DataFrame, window: tuple[int, int]) -> Iterator[pd.DataFrame]:
    """The three selections of one model."""
    last = int(rows["round"].max())
    best = _best_round(rows, window)
    if best is not None:
        yield _at_round(rows, best, "best")
    yield _at_round(rows, last, "last")
    first = max(1, last - LAST_ROUNDS + 1)
    tail = rows[rows["round"] >= first]
    means = tail.groupby(VALUE, sort=False)["value"].agg(lambda values: values.mean(skipna=False)).reset_index()
    yield means.assign(selection=f"mean{LAST_ROUNDS}", round=f"{first}-{last}")


def _best_round(rows: pd.DataFrame, window: tuple[int, int]) -> int | None:
    """The first round of highest pooled clean accuracy in the window; None if none was tested there."""
    clean = rows[(rows["condition"] == "clean") & (rows["scope"] == "pooled") & (rows["metric"] == "accuracy")]
    inside = clean[clean["round"].between(*window)].sort_values("round")
    if inside.empty:
        return None
    return int(inside["round"].iloc[int(inside["value"].fillna(-np.inf).to_numpy().argmax())])


def _at_round(rows: pd.DataFrame, round_: int, selection: str) -> pd.DataFrame:
    found = rows.loc[rows["round"] == round_, [*VALUE, "value"]]
    return found.assign(selection=selection, round=str(round_))


def _from_evaluation(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """`last`, and `best` where the model has a best state of its own."""
    model = rows["model"].iloc[0]
    for selection, state in (("best", f"best-{model}"), ("last", "last")):
        at = rows[rows["state"] == state]
        for scope in ("pooled", "mean", "worst"):
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
