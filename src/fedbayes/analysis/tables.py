"""The tables of a paper as HTML, LaTeX and CSV, ours beside theirs, from its reproduction file.

Each table comes twice: in the paper's own shape (setting by setting where that would be too wide), and as a long list
of what ran, where scale, seeds, preset and the dataset that really ran stand beside every number. The CSV is the long
list of all printed numbers, run or not, and of methods the paper does not print, in the paper's units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd

from fedbayes.analysis import display
from fedbayes.analysis.compare import NUMBERS, read_reproduction
from fedbayes.analysis.latex import fragment
from fedbayes.analysis.listing import MOST_COLUMNS, Listing, by_cell, by_metric, by_setting
from fedbayes.analysis.matrix import Matrix, matrix
from fedbayes.analysis.pages import render
from fedbayes.analysis.published import meaning_of
from fedbayes.analysis.verdict import NOT_IN_PAPER
from fedbayes.io import COST, write_text, write_with
from fedbayes.plan import slug
from fedbayes.reading import choice, complain

READING = (
    "Published values are the paper's own text; ours, with preset and variant, is the mean ± standard deviation over "
    "seeds, taken as the paper takes its number. Bold: best of a setting in a metric, among printed "
    "numbers and among ours, where at least two methods compete; ours on a stand-in or with a mark (such as adapted on "
    "test data) does not. A dagger marks a printed number there is an objection to."
)
OWN_READING = (
    "No number of this is printed in the paper: all are ours, with preset and variant, as mean ± standard deviation "
    "over seeds. Bold: best of a setting where at least two methods compete; what ran on a stand-in or has a mark does "
    "not."
)
COLUMNS = (
    "Ours is the mean ± standard deviation over seeds of the best round in the paper's window, chosen for each seed by "
    "pooled accuracy; the last round and the mean of the last 100 rounds stand beside it. The 95 % interval is "
    "Student's t over seeds (seeds − 1 degrees of freedom); one seed has neither deviation nor interval. Pooled takes "
    "all clients' test samples together, client mean weighs clients equally; both are of the best round."
)
LAST_ROUND_COLUMNS = (
    "Ours is the mean ± standard deviation over seeds of the last round; the best one in the paper's window, chosen "
    "for each seed by pooled accuracy, stands beside it. The 95 % interval is Student's t over seeds "
    "(seeds − 1 degrees of freedom); one seed has neither deviation nor interval."
)
COST_COLUMNS = (
    "Ours is the mean ± standard deviation over seeds of what whole runs cost. The 95 % interval is Student's t "
    "over seeds (seeds − 1 degrees of freedom); one seed has neither deviation nor interval."
)
OF_LAST_ROUND = " Here ours is of the last round, not of the best one."
INFINITE = " Infinite (inf): the baseline accepts nothing falsely where it operates, and the model does."
NEW_CLIENTS = " New clients are tested once training has ended: their numbers are of the last round."
UNRUN = " Not run: left out at this scale; a dash: the paper, or our file of it, has no such number, preset or variant."
UNPRINTED = " A method, setting or metric without published values is not in the paper."
REPEATS = (
    " Each seed's number is a mean over repeats of the experiment, and all seeds share the data of these repeats: the "
    "deviation over seeds is of training alone, not of new data. The figures show standard errors over repeats."
)
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

ESTIMATES = ("error", "distance")  # metrics of experiments that are repeated within a run

# Of the columns of the list of what ran: those that say which row it is, and those about printed numbers.
KEYS = ("Method", "Model", "Metric", "Setting", "Preset")
BESIDE_PRINTED = ("Published", "Difference", "Verdict")


@dataclass(frozen=True)
class Table:
    """One table, ready to be shown; `listing` stands in the matrix's place where that would be too wide.

    `own` is a table that the paper does not have.
    """

    key: str
    heading: str
    reading: str
    matrix: Matrix
    listing: Listing | None
    columns: str
    ran: list[dict[str, str]]
    own: bool = False


def table(
    reproduction: Path,
    key: str,
    html: Path,
    tex: Path,
    csv: Path,
    planned: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write one table of a paper three times.

    Args:
        reproduction: what `compare` wrote for the paper.
        key: the table's file name, `table1` for Table 1.
        html: the page to write; it stands alone.
        tex: the LaTeX fragment to write.
        csv: the long list to write.
        planned: the paper's cells at scale paper, as rows of the index: what else of the table could run.
    """
    rows = read_reproduction(reproduction)
    made = make_table(rows, key, planned)
    paper = rows["paper_name"].iloc[0]
    scale, of_table = rows["scale"].iloc[0], _rows_of(rows, key)
    write_text(html, render("table_page.html", table=made, paper=paper, scale=scale))
    ran_on = ", ".join(_ran_on(of_table)) or "nothing"
    heading = f"{paper}, {made.heading}, scale {scale}, ours on {ran_on}."
    write_text(tex, fragment(heading, made.reading, made.matrix, made.listing, made.ran, KEYS))
    long = in_printed_units(of_table)
    write_with(csv, partial(long.to_csv, index=False, float_format="%.10g"))


def make_table(rows: pd.DataFrame, key: str, planned: Sequence[Mapping[str, Any]] | None = None) -> Table:
    """One table of a reproduction: its heading, the paper's shape and the list of what ran; arguments as of `table`."""
    of_table = _rows_of(rows, key)
    first = of_table.iloc[0]
    own = display.is_own(first["table"])
    measures = dict.fromkeys(display.measure(metric) for metric in of_table["metric"])
    reading = f"Measured: {', '.join(measures)}. {OWN_READING if own else READING}"
    if not own:
        reading += _stand_ins(of_table) + (UNRUN if planned is not None else "")
    if not own and (of_table["why_no_verdict"] == NOT_IN_PAPER).any():
        reading += UNPRINTED
    if (of_table["model"] == COST).any():
        reading += COSTS
    costs = bool((of_table["model"] == COST).all())
    if costs:
        reading += _measured_on(of_table)
    last = [meaning_of(metric).selection == "last" for metric in of_table["metric"]]
    if all(last):
        reading += OF_LAST_ROUND
    elif any(last):
        reading += NEW_CLIENTS
    if all(meaning_of(metric).metric in ESTIMATES for metric in of_table["metric"]):
        reading += REPEATS
    if of_table["ours"].abs().eq(float("inf")).any():
        reading += INFINITE
    shape = matrix(of_table, planned)
    listing = _turned(shape, own, costs)
    heading = first["experiment_title"] if own else display.title(first["table"])
    columns = COST_COLUMNS if costs else LAST_ROUND_COLUMNS if all(last) else COLUMNS
    return Table(key, heading, reading, shape, listing, columns, what_ran(of_table), own)


def _ran_on(rows: pd.DataFrame) -> list[str]:
    """The datasets that ours of a table really ran on."""
    ran = rows[rows["status"] == "run"].drop_duplicates(["ran_on", "stand_in_for"])
    return [display.dataset(*pair) for pair in zip(ran["ran_on"], ran["stand_in_for"], strict=True)]


def _turned(shape: Matrix, own: bool, costs: bool) -> Listing | None:
    """The listing that stands in a matrix's place, if its own shape is not the paper's or too wide."""
    if costs:
        return by_metric(shape)
    if own:
        return by_cell(shape)
    return by_setting(shape) if len(shape.columns) > MOST_COLUMNS else None


def _measured_on(rows: pd.DataFrame) -> str:
    """What the paper says its costs are of, such as its graphics card: no heading for ours."""
    settings = rows[rows["printed"] != ""].groupby("setting", sort=False)["metric"]
    found = [f"{setting} ({', '.join(dict.fromkeys(map(display.measure, own)))})" for setting, own in settings]
    return f" The paper's headings, of its own numbers alone: {'; '.join(found)}." if found else ""


def _stand_ins(rows: pd.DataFrame) -> str:
    """Under which of the paper's datasets ours ran on a stand-in, in a sentence; empty where it did nowhere."""
    others = rows[(rows["status"] == "run") & (rows["stand_in_for"] != "")]
    found = [
        # A table without a dataset has a dash there.
        ("" if dataset == "-" else f"under {dataset} ") + f"on {', '.join(_ran_on(own))}"
        for dataset, own in others.groupby("dataset", sort=False)
    ]
    return f" Not the paper's data: ours ran {'; '.join(found)}." if found else ""


def _rows_of(rows: pd.DataFrame, key: str) -> pd.DataFrame:
    keys = rows["table"].map(slug)
    if key not in set(keys):
        raise complain("config/published.csv", "table", "unknown table: " + choice(key, set(keys)))
    return rows[keys == key]


def what_ran(rows: pd.DataFrame) -> list[dict[str, str]]:
    """Every cell that ran, as columns of text for people, in the order of the paper."""
    ran = cast(list[dict[str, Any]], rows[rows["status"] == "run"].to_dict("records"))
    needless = set(BESIDE_PRINTED) if all(display.is_own(row["table"]) for row in ran) else set()
    if len({display.measure(row["metric"]) for row in ran}) < 2:
        needless.add("Metric")
    # Where no number is of the last round, each is of the best one.
    if not any(meaning_of(row["metric"]).selection == "last" for row in ran):
        needless.add("Best round")
    return [
        {column: text or display.NOTHING for column, text in _shown(row).items() if column not in needless}
        for row in ran
    ]


def _shown(row: dict[str, Any]) -> dict[str, str]:
    variant = f" ({row['variant']})" if row["variant"] else ""
    return {
        "Method": row["method"],
        "Model": display.model(row),
        "Metric": display.measure(row["metric"]),
        "Setting": display.setting(row) + variant,
        "Preset": row["preset"],
        "Scale": row["scale"],
        "Seeds": str(row["seeds"]),
        "Ran on": display.ran_on(row),
        "Ours": display.ours(row),
        "Last round": display.number(row["ours_last"], row),
        "Best round": display.number(row["ours_best"], row),
        "Published": row["printed"],
        "Difference": display.number(row["difference"], row, sign="+"),
        "95 % interval": display.interval(row),
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
