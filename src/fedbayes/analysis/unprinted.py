"""Cells of ours that no printed number is about: a user's own method in a paper's table, or a setting of their own.

They have rows of the reproduction like all others, in the metrics their table prints, so that every table shows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from fedbayes.analysis.beside import followed, run_row
from fedbayes.analysis.published import meaning_of
from fedbayes.analysis.verdict import NOT_IN_PAPER
from fedbayes.io import COST

# A printed number's own texts.
TEXTS = ["printed", "doubtful", "note"]

# What is shown of a cell whose table prints nothing that it has.
ANY_TABLE = ("acc_PM_pct", "acc_GM_pct")


def unprinted_rows(printed: pd.DataFrame, cell: pd.DataFrame) -> list[dict[str, Any]]:
    """One cell without a printed number: in the metrics of its column, else of its table, else its accuracies."""
    first = cell.iloc[0]
    place = {
        "table": first["published_table"],
        "dataset": first["published_dataset"] or first["stand_in_for"] or first["dataset_title"],
        "setting": first["published_setting"] or first["setting"],
        "method": first["method"],
    }
    column = printed[(printed["dataset"] == place["dataset"]) & (printed["setting"] == place["setting"])]
    for metrics in (column["metric"], printed["metric"], ANY_TABLE):
        rows = [row for metric in _personal_first(metrics) if (row := _row(place, metric, cell))]
        if rows:
            return rows
    return []


def _personal_first(metrics: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(metrics), key=lambda metric: meaning_of(metric).model == "gm")


def _row(place: dict[str, Any], metric: str, cell: pd.DataFrame) -> dict[str, Any] | None:
    """One metric of such a cell; None if the cell does not have it or did not follow the model it is of."""
    meaning = meaning_of(metric)
    nothing = dict.fromkeys(("published", "published_std", "std"), float("nan")) | dict.fromkeys(TEXTS, "")
    theirs = place | nothing | {"metric": metric, "unit": meaning.unit}
    row = run_row(
        theirs | {"our_metric": meaning.metric, "scope": meaning.scope},
        meaning,
        cell[cell["model"].isin(followed(cell) | {COST})],
    )
    return row and row | {"verdict": "", "why_no_verdict": NOT_IN_PAPER}
