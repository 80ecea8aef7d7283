"""Every printed number of a paper with ours beside it: `results/<scale>/reproduction/<paper>.csv`.

One row per printed number that nothing ran (`status` = `not run`), and one per printed number, setting variant and
preset that ran. A cell of ours that claims no printed number (a user's own method or setting) follows the rows of its
table, with the metrics that table prints; an experiment whose numbers the paper does not print has a table of its own
at the end. What the paper leaves out beside a printed metric (`Meaning.also`) follows it. Values are in our units
(fractions), `printed` is the paper's own text. Ours is the mean over seeds of the paper's selection (`best` in its
window, or the last round); both of these, the mean of the last 100 rounds, the pooled value, the client mean and the
worst client stand beside it. Verdicts follow the rule in `verdict.py`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd

from fedbayes.analysis.beside import run_row
from fedbayes.analysis.published import NOT_AVAILABLE, meaning_of, read_published
from fedbayes.analysis.unprinted import followed_only, own_metrics, unprinted_row, unprinted_rows
from fedbayes.analysis.verdict import DERIVED, NOT_IN_PAPER
from fedbayes.io import write_with
from fedbayes.reading import choice, complain

COLUMNS = ["paper", "paper_name", "table", "dataset", "setting", "method", "metric", "model", "our_metric"]
COLUMNS += ["scope", "condition", "printed", "unit", "published", "published_std", "doubtful", "note", "status"]
COLUMNS += ["experiment", "our_setting", "variant", "preset", "scale", "ran_on", "stand_in_for", "marks", "seeds"]
COLUMNS += ["seed_list", "diverged"]
COLUMNS += ["ours", "std", "ci_low", "ci_high", "ours_last", "ours_best", "ours_mean100", "ours_pooled"]
COLUMNS += [
    "ours_client_mean",
    "ours_worst_client",
    "difference",
    "verdict",
    "why_no_verdict",
    "reduction",
    "runs",
    "experiment_title",
]

# Columns of `COLUMNS` that hold numbers; all others are text.
NUMBERS = ["published", "published_std", "ours", "std", "ci_low", "ci_high", "ours_last", "ours_best", "ours_mean100"]
NUMBERS += ["ours_pooled", "ours_client_mean", "ours_worst_client", "difference"]

# What names a cell of ours in the summary, and the same in the reproduction.
CELL = ["experiment", "setting", "variant", "preset", "method"]
NAMED = ["experiment", "our_setting", "variant", "preset", "method"]

# What a cell says it stands beside, and the cells of a table by that.
PLACE = ["published_dataset", "published_setting", "method"]
Claims = dict[tuple[Any, ...], list[pd.DataFrame]]


def compare(summary: Path, published_csv: Path, paper_name: str, paper: str, scale: str, out: Path) -> None:
    """Write the reproduction of one paper.

    Args:
        summary: what `summarize` wrote for the paper.
        published_csv: `config/published.csv`.
        paper_name: the paper as `published.csv` names it.
        paper: the paper as `config/papers/` names it.
        scale: smoke, reduced or paper; the summary does not tell where nothing ran.
        out: the CSV file to write.
    """
    published = read_published(published_csv)
    if paper_name not in set(published["paper"]):
        raise complain(str(published_csv), "paper", "unknown paper: " + choice(paper_name, set(published["paper"])))
    ours = pd.read_parquet(summary)
    ours = ours[ours["paper"] == paper]
    ours = ours.assign(table=ours["published_table"].where(ours["published_table"] != "", ours["own_table"]))
    printed = published[published["paper"] == paper_name]
    tables = dict.fromkeys([*printed["table"], *ours["table"]])
    own = own_metrics(dict.fromkeys(printed["metric"]))
    rows = [row for table in tables for row in _table_rows(table, printed[printed["table"] == table], ours, own)]
    frame = pd.DataFrame(rows, columns=COLUMNS).assign(paper=paper, paper_name=paper_name)
    frame = frame.astype({"scale": object}).fillna({"scale": scale})
    write_with(out, partial(frame.to_csv, index=False, float_format="%.10g"))


def read_reproduction(file: Path) -> pd.DataFrame:
    """A reproduction file as it was written: numbers as numbers, all else as text, nothing missing but numbers."""
    text = pd.read_csv(file, dtype=str, keep_default_na=False)
    numbers = {column: pd.to_numeric(text[column], errors="coerce") for column in NUMBERS}
    return text.assign(**numbers, seeds=text["seeds"].astype(int))


def printed_only(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a reproduction that are about a printed number, not about a ratio of two of them or about none.

    What a paper prints as not available does not exist, so that nobody could run it.
    """
    return rows[~rows["why_no_verdict"].isin([NOT_IN_PAPER, DERIVED]) & (rows["printed"] != NOT_AVAILABLE)]


def _table_rows(table: str, printed: pd.DataFrame, ours: pd.DataFrame, own: list[str]) -> list[dict[str, Any]]:
    """The rows of one table: its printed numbers in their order, then the cells that claim none of them.

    Args:
        table: its name, or that of a table of our own.
        printed: its numbers.
        ours: the summary.
        own: the metrics of tables of our own.
    """
    numbers = cast(list[dict[str, Any]], printed.to_dict("records"))
    ours = ours[ours["table"] == table]
    claims: Claims = {}
    for key, cell in ours.groupby([*PLACE, *CELL], sort=False):
        claims.setdefault(key[: len(PLACE)], []).append(cell)
    rows = [
        row
        for number in numbers
        for row in (*_rows(number, claims), *_ratios(number, numbers, claims), *_also(number, claims))
    ]
    claimed = {tuple(row.get(column) for column in NAMED) for row in rows}
    cells = ours.groupby(CELL, sort=False)
    return rows + [row for key, cell in cells if key not in claimed for row in unprinted_rows(printed, cell, own)]


def _claiming(number: dict[str, Any], claims: Claims) -> list[pd.DataFrame]:
    """The summaries of the cells that a printed number is about."""
    return claims.get((number["dataset"], number["setting"], number["method"]), [])


def _also(number: dict[str, Any], claims: Claims) -> list[dict[str, Any]]:
    """What our cells have beside a printed number and the paper has not."""
    place = {column: number[column] for column in ("table", "dataset", "setting", "method")}
    metrics = meaning_of(number["metric"]).also
    cells = [followed_only(cell) for cell in _claiming(number, claims)] if metrics else []
    return [row for metric in metrics for cell in cells if (row := unprinted_row(place, metric, cell))]


def _ratios(number: dict[str, Any], table: list[dict[str, Any]], claims: Claims) -> list[dict[str, Any]]:
    """A printed time divided by another method's, beside the same ratio of ours: what two machines have in common.

    Args:
        number: a printed number.
        table: all numbers of its table.
        claims: what ran, by the places of printed numbers.
    """
    metric = meaning_of(number["metric"]).beside
    if not metric:
        return []
    place = ("dataset", "setting", "metric")
    base = [n for n in table if n["method"] == meaning_of(metric).base and all(n[k] == number[k] for k in place)]
    if not base:
        return []
    ratio = number["value"] / base[0]["value"]
    derived = {"metric": metric, "value": ratio, "std": float("nan"), "printed": f"{ratio:.2f}"}
    derived |= {"unit": meaning_of(metric).unit, "note": f"{number['printed']} / {base[0]['printed']}"}
    found = _rows(number | derived, claims)
    return [row | {"verdict": "", "why_no_verdict": DERIVED} for row in found if row["status"] == "run"]


def _rows(number: dict[str, Any], claims: Claims) -> list[dict[str, Any]]:
    """The rows of one printed number: one for each cell that claims it, or one that says `not run`."""
    meaning = meaning_of(number["metric"])
    theirs = number | {"published": number["value"], "published_std": number["std"], "std": float("nan")}
    theirs |= {"our_metric": meaning.metric, "scope": meaning.scope}
    rows = [row for cell in _claiming(number, claims) if (row := run_row(theirs, meaning, cell))]
    unrun = {"model": meaning.model or "", "condition": "", "seeds": 0}
    return rows or [theirs | unrun | {"status": "not run", "why_no_verdict": "not run"}]
