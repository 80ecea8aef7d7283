"""Cells of ours that no printed number is about: a user's own method or setting, or an experiment the paper only names.

They have rows of the reproduction like all others. In a table of the paper these are in the metrics it prints; in a
table of its own an experiment has accuracy, likelihood and calibration of both models, of newcomers, too.
"""

from __future__ import annotations

import re
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

# What a table of our own shows, as far as a cell has it: of classifiers, then of estimates.
CLASSIFIERS = ("acc_{}_pct", "nll_{}", "{ece}", "acc_{}_pct_new", "nll_{}_new", "{ece}_new")
ESTIMATES = ("error_{}", "distance_{}")


def own_metrics(printed: Iterable[str]) -> list[str]:
    """The metrics of a paper's tables of our own; ECE by as many bins as the paper's.

    Args:
        printed: all metrics that the paper prints.
    """
    ten = any(meaning_of(metric).metric == "ece10" for metric in printed)
    names = [name.replace("{ece}", "ECE10_{}_pct" if ten else "ECE_{}") for name in (*CLASSIFIERS, *ESTIMATES)]
    return [name.format(model) for model in ("PM", "GM") for name in names]


def unprinted_rows(printed: pd.DataFrame, cell: pd.DataFrame, own: Iterable[str]) -> list[dict[str, Any]]:
    """One cell without a printed number: in the metrics of its column, else of its table, else its accuracies.

    Args:
        printed: the numbers of its table.
        cell: all rows of the summary of the cell.
        own: the metrics of a cell whose table the paper does not have.
    """
    cell = followed_only(cell)
    first = cell.iloc[0]
    dataset = first["published_dataset"] or first["stand_in_for"] or first["dataset_title"]
    place = {
        "table": first["table"],
        "dataset": dataset,
        "setting": first["published_setting"] or first["setting"],
        "method": first["method"],
    }
    if first["own_table"]:
        place["setting"] = _without(dataset, first["setting_title"])
        return [row for metric in own if (row := unprinted_row(place, metric, cell))]
    column = printed[(printed["dataset"] == place["dataset"]) & (printed["setting"] == place["setting"])]
    for metrics in (column["metric"], printed["metric"], ANY_TABLE):
        rows = [row for metric in _personal_first(metrics) if (row := unprinted_row(place, metric, cell))]
        if rows:
            return rows
    return []


def followed_only(cell: pd.DataFrame) -> pd.DataFrame:
    """The rows of the models that a cell followed over the rounds, and of its costs."""
    return cell[cell["model"].isin(followed(cell) | {COST})]


def _without(dataset: str, title: str) -> str:
    """`MNIST small` in a column of MNIST is `small`."""
    return re.sub(rf"^{re.escape(dataset)}[ ,]+(?=\S)", "", title)


def _personal_first(metrics: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(metrics), key=lambda metric: meaning_of(metric).model == "gm")


def unprinted_row(place: dict[str, Any], metric: str, cell: pd.DataFrame) -> dict[str, Any] | None:
    """One metric of such a cell; None if the cell does not have it.

    Args:
        place: columns table, dataset, setting and method.
        metric: as `published.MEANINGS` names it.
        cell: what `followed_only` leaves of the cell.
    """
    meaning = meaning_of(metric)
    nothing = dict.fromkeys(("published", "published_std", "std"), float("nan")) | dict.fromkeys(TEXTS, "")
    theirs = place | nothing | {"metric": metric, "unit": meaning.unit}
    row = run_row(theirs | {"our_metric": meaning.metric, "scope": meaning.scope}, meaning, cell)
    return row and row | {"verdict": "", "why_no_verdict": NOT_IN_PAPER}
