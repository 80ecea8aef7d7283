"""One cell of ours beside one number of a paper's table: a row of the reproduction."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fedbayes.analysis.published import Meaning
from fedbayes.analysis.run_cost import WHOLE
from fedbayes.analysis.verdict import objections, verdict
from fedbayes.io import COST

# Columns that come from the summary as they are; those of SEEDS belong to the selection that is compared.
CARRIED = ["experiment", "variant", "preset", "condition", "scale", "stand_in_for", "marks", "reduction"]
SEEDS = ["seeds", "seed_list", "runs", "diverged"]


def run_row(theirs: dict[str, Any], meaning: Meaning, cell: pd.DataFrame) -> dict[str, Any] | None:
    """One cell of ours beside the printed number; None if the cell did not test that model in that metric.

    Args:
        theirs: the columns that the paper fills.
        meaning: what the printed metric is.
        cell: all rows of the summary of one cell.
    """
    model = meaning.model or _tested_model(cell)
    asked = meaning.condition or cell["published_condition"]
    tested = cell[(cell["model"] == model) & (cell["metric"] == meaning.metric) & (cell["condition"] == asked)]
    if tested.empty:
        return None
    selection = WHOLE if model == COST else meaning.selection
    # Plain records: a frame takes long to pick a row of many columns from.
    rows = [{str(key): value for key, value in row.items()} for row in tested.to_dict("records")]
    by_place = {(row["selection"], row["scope"]): row for row in reversed(rows)}
    taken = by_place.get((selection, meaning.scope), {})

    def mean(selection: str, scope: str) -> float:
        return float(by_place.get((selection, scope), {}).get("mean", float("nan")))

    ours = mean(selection, meaning.scope)
    source = rows[0] | {key: value for key, value in taken.items() if key in SEEDS}
    row = theirs | {key: source[key] for key in (*CARRIED, *SEEDS)}
    row |= {key: taken.get(key, float("nan")) for key in ("std", "ci_low", "ci_high")}
    row |= {
        "status": "run",
        "model": model,
        "our_setting": source["setting"],
        "experiment_title": source["experiment_title"],
        "ran_on": source["dataset_title"],
        "ours": ours,
        "ours_last": mean("last", meaning.scope),
        "ours_best": mean("best", meaning.scope),
        "ours_mean100": mean("mean100", meaning.scope),
        "ours_pooled": mean(selection, "pooled"),
        "ours_client_mean": mean(selection, "mean"),
        "ours_worst_client": mean(selection, "worst"),
        "difference": ours - theirs["published"],
    }
    return row | _judged(row, meaning)


def _tested_model(cell: pd.DataFrame) -> str:
    """The model a paper means that names none: the one followed over the rounds, personal before global."""
    return "pm" if "pm" in followed(cell) else "gm"


def followed(cell: pd.DataFrame) -> set[str]:
    """The models that were tested over the rounds, not only at the end."""
    return set(cell.loc[cell["selection"] == "mean100", "model"])


def _judged(row: dict[str, Any], meaning: Meaning) -> dict[str, str]:
    reasons = objections(
        row["scale"],
        row["stand_in_for"],
        int(row["seeds"]),
        row["doubtful"],
        row["published"],
        row["ours"],
        row["marks"],
        meaning.by_machine,
        row["method"] == meaning.base,
    )
    if reasons:
        return {"verdict": "", "why_no_verdict": "; ".join(reasons)}
    interval = (row["ci_low"], row["ci_high"])
    return {
        "verdict": verdict(meaning, row["published"], row["published_std"], row["ours"], interval),
        "why_no_verdict": "",
    }
