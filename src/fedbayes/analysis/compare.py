"""Every printed number of a paper with ours beside it: `results/<scale>/reproduction/<paper>.csv`.

One row per printed number that nothing ran (`status` = `not run`), and one per printed number, setting variant and
preset that ran. Values are in our units (fractions), `printed` is the paper's own text. Ours is the mean over seeds of
the paper's selection (`best` in its window); the last round, the mean of the last 100 rounds, the client mean and the
worst client stand beside it. Verdicts follow the rule in `verdict.py`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd

from fedbayes.analysis.published import Meaning, meaning_of, read_published
from fedbayes.analysis.verdict import objections, verdict
from fedbayes.io import write_with
from fedbayes.reading import choice, complain

COLUMNS = ["paper", "paper_name", "table", "dataset", "setting", "method", "metric", "model", "our_metric"]
COLUMNS += [
    "scope",
    "printed",
    "unit",
    "published",
    "published_std",
    "doubtful",
    "note",
    "status",
    "experiment",
    "our_setting",
    "variant",
]
COLUMNS += ["preset", "scale", "ran_on", "stand_in_for", "seeds", "seed_list", "ours", "std", "ci_low", "ci_high"]
COLUMNS += ["ours_last", "ours_mean100", "ours_client_mean", "ours_worst_client", "difference", "verdict"]
COLUMNS += ["why_no_verdict", "reduction", "runs"]

# Columns of `COLUMNS` that hold numbers; all others are text.
NUMBERS = ["published", "published_std", "ours", "std", "ci_low", "ci_high", "ours_last", "ours_mean100"]
NUMBERS += ["ours_client_mean", "ours_worst_client", "difference"]

# Columns that come from the summary as they are; those of SEEDS belong to the selection that is compared.
CARRIED = ["experiment", "variant", "preset", "scale", "stand_in_for", "reduction"]
SEEDS = ["seeds", "seed_list", "runs"]


def compare(summary: Path, published_csv: Path, paper_name: str, paper: str, out: Path) -> None:
    """Write the reproduction of one paper.

    Args:
        summary: what `summarize` wrote for the paper.
        published_csv: `config/published.csv`.
        paper_name: the paper as `published.csv` names it.
        paper: the paper as `config/papers/` names it.
        out: the CSV file to write.
    """
    published = read_published(published_csv)
    if paper_name not in set(published["paper"]):
        raise complain(str(published_csv), "paper", "unknown paper: " + choice(paper_name, set(published["paper"])))
    ours = pd.read_parquet(summary)
    ours = ours[(ours["paper"] == paper) & (ours["condition"] == "clean")]
    numbers = cast(list[dict[str, Any]], published[published["paper"] == paper_name].to_dict("records"))
    rows = [row for number in numbers for row in _rows(number, ours)]
    frame = pd.DataFrame(rows, columns=COLUMNS).assign(paper=paper, paper_name=paper_name)
    write_with(out, partial(frame.to_csv, index=False, float_format="%.10g"))


def read_reproduction(file: Path) -> pd.DataFrame:
    """A reproduction file as it was written: numbers as numbers, all else as text, nothing missing but numbers."""
    text = pd.read_csv(file, dtype=str, keep_default_na=False)
    numbers = {column: pd.to_numeric(text[column], errors="coerce") for column in NUMBERS}
    return text.assign(**numbers, seeds=text["seeds"].astype(int))


def _rows(number: dict[str, Any], ours: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of one printed number: one for each cell that claims it, or one that says `not run`."""
    meaning = meaning_of(number["metric"])
    claims = ours[
        (ours["published_table"] == number["table"])
        & (ours["published_dataset"] == number["dataset"])
        & (ours["published_setting"] == number["setting"])
        & (ours["method"] == number["method"])
        & (ours["metric"] == meaning.metric)
    ]
    theirs = number | {"published": number["value"], "published_std": number["std"], "std": float("nan")}
    theirs |= {"our_metric": meaning.metric, "scope": meaning.scope}
    cells = claims.groupby(["experiment", "setting", "variant", "preset"], sort=False)
    rows = [row for _, cell in cells if (row := _run_row(theirs, meaning, cell))]
    scale = ours["scale"].iloc[0] if len(ours) else ""
    unrun = {"model": meaning.model or "", "scale": scale, "status": "not run", "why_no_verdict": "not run", "seeds": 0}
    return rows or [theirs | unrun]


def _run_row(theirs: dict[str, Any], meaning: Meaning, cell: pd.DataFrame) -> dict[str, Any] | None:
    """One cell of ours beside the printed number; None if the cell did not test that model."""
    model = meaning.model or _tested_model(cell)
    tested = cell[cell["model"] == model]
    if tested.empty:
        return None
    best = _value(tested, "best", meaning.scope)
    source = tested.iloc[0].to_dict() | {key: value for key, value in best.items() if key in SEEDS}
    row = theirs | {key: source[key] for key in (*CARRIED, *SEEDS)}
    row |= {key: best.get(key, float("nan")) for key in ("std", "ci_low", "ci_high")}
    row |= {
        "status": "run",
        "model": model,
        "our_setting": source["setting"],
        "ran_on": source["dataset_title"],
        "ours": _mean(tested, "best", meaning.scope),
        "ours_last": _mean(tested, "last", meaning.scope),
        "ours_mean100": _mean(tested, "mean100", meaning.scope),
        "ours_client_mean": _mean(tested, "best", "mean"),
        "ours_worst_client": _mean(tested, "best", "worst"),
        "difference": _mean(tested, "best", meaning.scope) - theirs["published"],
    }
    return row | _judged(row, meaning)


def _tested_model(cell: pd.DataFrame) -> str:
    """The model a paper means that names none: the one followed over the rounds, personal before global."""
    followed = set(cell.loc[cell["selection"] == "mean100", "model"])
    return "pm" if "pm" in followed else "gm"


def _value(tested: pd.DataFrame, selection: str, scope: str) -> dict[str, Any]:
    """The summary's row for one selection and scope; empty if there is none."""
    found = tested[(tested["selection"] == selection) & (tested["scope"] == scope)]
    return {} if found.empty else {str(key): value for key, value in found.iloc[0].items()}


def _mean(tested: pd.DataFrame, selection: str, scope: str) -> float:
    return float(_value(tested, selection, scope).get("mean", float("nan")))


def _judged(row: dict[str, Any], meaning: Meaning) -> dict[str, str]:
    reasons = objections(
        row["scale"], row["stand_in_for"], int(row["seeds"]), row["doubtful"], row["published"], row["ours"]
    )
    if reasons:
        return {"verdict": "", "why_no_verdict": "; ".join(reasons)}
    interval = (row["ci_low"], row["ci_high"])
    return {
        "verdict": verdict(meaning, row["published"], row["published_std"], row["ours"], interval),
        "why_no_verdict": "",
    }
