"""The tables of a paper as HTML, LaTeX and CSV, ours beside theirs, from its reproduction file.

Each table comes twice: in the paper's own shape (setting by setting where that would be too wide), and as a long list
of what ran, where scale, seeds, preset and the dataset that really ran stand beside every number. The CSV is the long
list of all printed numbers, run or not, and of methods the paper does not print, in the paper's units.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd

from fedbayes.analysis import display
from fedbayes.analysis.compare import NUMBERS, read_reproduction
from fedbayes.analysis.latex import fragment
from fedbayes.analysis.listing import MOST_COLUMNS, Listing, by_setting
from fedbayes.analysis.matrix import Matrix, matrix
from fedbayes.analysis.pages import render
from fedbayes.analysis.published import meaning_of
from fedbayes.analysis.verdict import NOT_IN_PAPER
from fedbayes.io import COST, write_text, write_with
from fedbayes.reading import choice, complain

READING = (
    "Published values are the paper's own text; ours, with preset and variant, is the mean ± standard deviation over "
    "seeds, taken as the paper takes its number. Bold: best of a setting, for each kind of model apart, among printed "
    "numbers and among ours. A dagger marks a printed number there is an objection to."
)
COLUMNS = (
    "Ours is the mean ± standard deviation over seeds of the best round in the paper's window, chosen for each seed by "
    "pooled accuracy; the last round and the mean of the last 100 rounds stand beside it. The 95 % interval is "
    "Student's t over seeds (seeds − 1 degrees of freedom); one seed has neither deviation nor interval. Pooled takes "
    "all clients' test samples together, client mean weighs clients equally; both are of the best round."
)
COST_COLUMNS = (
    "Ours is the mean ± standard deviation over seeds of what whole runs cost. The 95 % interval is Student's t "
    "over seeds (seeds − 1 degrees of freedom); one seed has neither deviation nor interval."
)
OF_LAST_ROUND = " Here ours is of the last round, not of the best one."
INFINITE = " Infinite (inf): the baseline accepts nothing falsely where it operates, and the model does."
UNPRINTED = " A method without published values is not in the paper."
COSTS = (
    " Costs belong to a whole run, not to a round. Times are of training alone, on the machine that ran; where the "
    "paper prints seconds, ratios of printed ones stand beside the same ratios of ours."
)
CSV_COLUMNS = ["table", "dataset", "setting", "method", "metric", "model", "unit", "status", "variant", "preset"]
CSV_COLUMNS += [
    "scale",
    "ran_on",
    "stand_in_for",
    "marks",
    "seeds",
    "seed_list",
    "diverged",
    *NUMBERS,
    "verdict",
    "why_no_verdict",
]
CSV_COLUMNS += ["doubtful", "note", "reduction", "runs"]

# The columns of the list of what ran that fit a printed page, and those of them that hold sentences.
PRINTED = ["Method", "Model", "Setting", "Preset", "Scale", "Seeds", "Ran on", "Ours", "Published", "Difference"]
PRINTED += ["Verdict", "Reduction"]
WIDE = {"Setting", "Ran on", "Verdict", "Reduction"}


@dataclass(frozen=True)
class Table:
    """One table, ready to be shown; `listing` stands in the matrix's place where that would be too wide."""

    key: str
    heading: str
    reading: str
    matrix: Matrix
    listing: Listing | None
    columns: str
    ran: list[dict[str, str]]


def table(reproduction: Path, key: str, html: Path, tex: Path, csv: Path) -> None:
    """Write one table of a paper three times.

    Args:
        reproduction: what `compare` wrote for the paper.
        key: the table's file name, `table1` for Table 1.
        html: the page to write; it stands alone.
        tex: the LaTeX fragment to write.
        csv: the long list to write.
    """
    rows = read_reproduction(reproduction)
    made = make_table(rows, key)
    paper = rows["paper_name"].iloc[0]
    write_text(html, render("table_page.html", table=made, paper=paper, scale=rows["scale"].iloc[0]))
    ran = [{column: row[column] for column in PRINTED} for row in made.ran]
    write_text(tex, fragment(f"{paper}, {made.heading}.", made.reading, made.matrix, made.listing, ran, WIDE))
    long = in_printed_units(_rows_of(rows, key))
    write_with(csv, partial(long.to_csv, index=False, float_format="%.10g"))


def make_table(rows: pd.DataFrame, key: str) -> Table:
    """One table of a reproduction: its heading, the paper's shape and the list of what ran."""
    of_table = _rows_of(rows, key)
    measures = dict.fromkeys(display.measure(metric) for metric in of_table["metric"])
    reading = f"Measured: {', '.join(measures)}. {READING}"
    if (of_table["why_no_verdict"] == NOT_IN_PAPER).any():
        reading += UNPRINTED
    if (of_table["model"] == COST).any():
        reading += COSTS
    if any(meaning_of(metric).selection == "last" for metric in set(of_table["metric"])):
        reading += OF_LAST_ROUND
    if of_table["ours"].abs().eq(float("inf")).any():
        reading += INFINITE
    shape = matrix(of_table)
    listing = by_setting(shape) if len(shape.columns) > MOST_COLUMNS else None
    heading = display.title(of_table["table"].iloc[0])
    columns = COST_COLUMNS if (of_table["model"] == COST).all() else COLUMNS
    return Table(key, heading, reading, shape, listing, columns, what_ran(of_table))


def _rows_of(rows: pd.DataFrame, key: str) -> pd.DataFrame:
    keys = rows["table"].map(display.slug)
    if key not in set(keys):
        raise complain("config/published.csv", "table", "unknown table: " + choice(key, set(keys)))
    return rows[keys == key]


def what_ran(rows: pd.DataFrame) -> list[dict[str, str]]:
    """Every cell that ran, as columns of text for people, in the order of the paper."""
    ran = cast(list[dict[str, Any]], rows[rows["status"] == "run"].to_dict("records"))
    return [{column: text or display.NOTHING for column, text in _shown(row).items()} for row in ran]


def _shown(row: dict[str, Any]) -> dict[str, str]:
    variant = f" ({row['variant']})" if row["variant"] else ""
    return {
        "Method": row["method"],
        "Model": display.model(row),
        "Setting": display.setting(row) + variant,
        "Preset": row["preset"],
        "Scale": row["scale"],
        "Seeds": str(row["seeds"]),
        "Ran on": display.ran_on(row),
        "Ours": display.ours(row),
        "95 % interval": display.interval(row),
        "Last round": display.number(row["ours_last"], row),
        "Published": row["printed"],
        "Difference": display.number(row["difference"], row, sign="+"),
        "Verdict": display.judged(row),
        "Diverged": row["diverged"],
        "Mean of last 100": display.number(row["ours_mean100"], row),
        "Pooled": display.number(row["ours_pooled"], row),
        "Client mean": display.number(row["ours_client_mean"], row),
        "Worst client": display.number(row["ours_worst_client"], row),
        "Reduction": row["reduction"] or "none",
    }


def in_printed_units(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with every value in the unit the paper prints (the `unit` column)."""
    factors = rows["metric"].map(lambda metric: float(meaning_of(metric).factor))
    return rows.assign(**{column: rows[column] / factors for column in NUMBERS})[CSV_COLUMNS]
