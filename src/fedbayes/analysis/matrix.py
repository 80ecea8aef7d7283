"""A table in the paper's own shape: methods as rows, dataset x setting as columns, ours beneath theirs.

Every method and model gets a row of printed numbers and one row for each preset and variant of ours; a method that the
paper does not print has rows of ours only, after all others. A cell that did not run says so, with a dash where none
is in the paper's file. The best printed and the
best of our numbers in a column are marked, for each kind of model and metric apart, where at least two methods compete.
Numbers compete as rounded to the most digits that any of them shows. Ours on stand-ins, and those with marks (such as
`adapted on test data`), do not compete.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pandas as pd

from fedbayes.analysis import display
from fedbayes.analysis.device_columns import by_device
from fedbayes.analysis.published import NOT_AVAILABLE, meaning_of
from fedbayes.analysis.verdict import NOT_IN_PAPER

Row = dict[str, Any]
H = TypeVar("H", bound=Hashable)


@dataclass
class Entry:
    """One number of the matrix and how it is to be marked.

    Attributes:
        text: as it is shown.
        value: the number in the printed unit, not rounded; NaN for what does not compete.
        digits: after the point, as shown.
        best: whether it is the best of those it competes with.
        doubtful: whether there is an objection to a printed number.
        missing: whether there is no number.
        beside: the number of the last round, or of the best one where ours is of the last, where it differs.
    """

    text: str
    value: float = float("nan")
    digits: int = 0
    best: bool = False
    doubtful: bool = False
    missing: bool = False
    beside: str = ""


@dataclass(frozen=True)
class Line:
    """One row of the matrix; `span` and `method_span` count the lines a heading covers, 0 under another's."""

    method: str
    model: str
    metric: str
    source: str
    published: bool
    entries: list[Entry]
    part: str = ""  # of a table that has several, told beside the model; numbers of two parts do not compete
    span: int = 0
    method_span: int = 0


@dataclass(frozen=True)
class Matrix:
    """The table: `groups` are datasets with the number of their columns, `data` what ours really ran on in each."""

    columns: list[tuple[str, str]]
    groups: list[tuple[str, int]]
    lines: list[Line]
    data: list[str]
    doubts: list[str] = field(default_factory=list)
    divergences: list[str] = field(default_factory=list)


def matrix(table: pd.DataFrame, planned: Sequence[Mapping[str, Any]] | None = None) -> Matrix:
    """The rows of one table of a reproduction in the paper's shape and order.

    Args:
        table: the rows.
        planned: the paper's cells at scale paper; None where nobody asks what of the rest could run.
    """
    offers = None if planned is None else _offers(planned)
    printed = [
        row | {"offered": offers and offers[row["table"], row["dataset"], row["setting"], row["method"]]}
        for row in cast(list[Row], table.to_dict("records"))
    ]
    rows = by_device(printed)
    columns = _grouped((row["dataset"], row["setting"]) for row in rows)
    kinds = _grouped((row["method"], (row["part"], row["metric"])) for row in rows)
    measures = {display.measure(metric) for _, (_, metric) in kinds}
    lines: list[Line] = []
    for method, kind in kinds:
        of_kind = [row for row in rows if (row["method"], (row["part"], row["metric"])) == (method, kind)]
        unrun = _unrun([row for row in rows if row["method"] == method])
        lines += _lines(of_kind, columns, unrun, several_measures=len(measures) > 1)
    _mark_best(lines)
    groups = list(Counter(dataset for dataset, _ in columns).items())
    data = [_data(rows, column) for column in columns]
    return Matrix(columns, groups, _spanned(lines), data, _doubts(printed), _divergences(printed))


def _data(rows: list[Row], column: tuple[str, str]) -> str:
    """What ours ran on in a column; the dataset it is headed by where nothing ran."""
    ran = (row for row in rows if row["status"] == "run" and (row["dataset"], row["setting"]) == column)
    return ", ".join(_first_seen(map(display.ran_on, ran))) or column[0]


def _offers(planned: Sequence[Mapping[str, Any]]) -> defaultdict[tuple[str, ...], set[tuple[str, str]]]:
    """The presets and variants that the paper's file has for each place of its tables: table, column and method."""
    found: defaultdict[tuple[str, ...], set[tuple[str, str]]] = defaultdict(set)
    for cell in planned:
        place = (cell["published_table"], cell["published_dataset"], cell["published_setting"], cell["method"])
        found[place].add((cell["preset"], cell["variant"]))
    return found


def _unrun(rows: list[Row]) -> dict[tuple[str, str], Row]:
    """The columns in which a method has printed numbers and nothing ran, with one of these numbers."""
    ran = {(row["dataset"], row["setting"]) for row in rows if row["status"] == "run"}
    columns = {(row["dataset"], row["setting"]): row for row in rows}
    return {column: row for column, row in columns.items() if column not in ran}


def _lines(
    rows: list[Row], columns: list[tuple[str, str]], unrun: dict[tuple[str, str], Row], several_measures: bool
) -> list[Line]:
    """The printed line of one method and metric, then a line for each preset and variant of ours.

    Args:
        rows: of the method and the metric.
        columns: of the table.
        unrun: those in which the method did not run, with a row of each.
        several_measures: whether the metric has to be told.
    """
    by_column: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_column[row["dataset"], row["setting"]].append(row)
    first = rows[0]
    kind = " ".join(filter(None, [_model(rows), display.measure(first["metric"]) if several_measures else ""]))
    model = ", ".join(filter(None, [kind, first["part"]]))
    head = {"method": first["method"], "model": model, "metric": first["metric"], "part": first["part"]}
    lines = []
    is_printed = any(map(_is_printed, rows))
    if is_printed:
        printed = [_printed(by_column[column]) for column in columns]
        lines.append(Line(**head, source="published", published=True, entries=printed))
    ran = _first_seen((row["preset"], row["variant"]) for row in rows if row["status"] == "run")
    for preset, variant in ran or [("", "")]:
        source = ", ".join(filter(None, ["ours", preset, variant]))
        entries = [
            # Of a metric that the paper does not print only runs tell where it belongs.
            _missing(unrun[column], preset, variant)
            if not is_printed and column in unrun
            else _ours(by_column[column], preset, variant)
            for column in columns
        ]
        lines.append(Line(**head, source=source, published=False, entries=entries))
    return lines


def _model(rows: list[Row]) -> str:
    """PM or GM; empty where neither the paper nor a run of ours says which."""
    return next((display.model(row) for row in rows if row["model"]), "")


def _is_printed(row: Row) -> bool:
    return bool(row["why_no_verdict"] != NOT_IN_PAPER)


def _printed(rows: list[Row]) -> Entry:
    if not any(map(_is_printed, rows)):
        return Entry(display.NOTHING, missing=True)
    first = rows[0]
    value, digits = display.in_unit(first["published"], first), display.digits(first)
    return Entry(first["printed"], value, digits, doubtful=bool(first["doubtful"]))


def _ours(rows: list[Row], preset: str, variant: str) -> Entry:
    if not rows:
        return Entry(display.NOTHING, missing=True)
    for row in rows:
        if row["status"] == "run" and (row["preset"], row["variant"]) == (preset, variant):
            competes = not (row["marks"] or row["stand_in_for"])
            value = display.in_unit(row["ours"], row) if competes else float("nan")
            return Entry(display.ours(row), value, display.digits(row), beside=display.beside(row))
    return _missing(rows[0], preset, variant)


def _missing(row: Row, preset: str, variant: str) -> Entry:
    """`not run`, or a dash where nothing can run: the paper has no number, or its file no such preset or variant."""
    offered: set[tuple[str, str]] | None = row["offered"]
    nowhere = preset != "" and offered is not None and (preset, variant) not in offered
    text = display.NOTHING if nowhere or row["printed"] == NOT_AVAILABLE else display.NOT_RUN
    return Entry(text, missing=True)


def _mark_best(lines: list[Line]) -> None:
    competing: dict[tuple[str, str, bool, int], list[tuple[str, Entry]]] = defaultdict(list)
    for line in lines:
        for column, entry in enumerate(line.entries):
            if math.isfinite(entry.value):
                competing[line.metric, line.part, line.published, column].append((line.method, entry))
    for (metric, *_), found in competing.items():
        if len({method for method, _ in found}) < 2:
            continue
        # Each row shows the digits of its printed number: fewer must not win by rounding.
        digits = max(entry.digits for _, entry in found)
        choose = max if meaning_of(metric).higher_is_better else min
        best = choose(round(entry.value, digits) for _, entry in found)
        for _, entry in found:
            entry.best = round(entry.value, digits) == best


def _spanned(lines: list[Line]) -> list[Line]:
    """The lines with the number of lines each heading covers, written on its first line."""
    kinds = Counter((line.method, line.part, line.metric) for line in lines)
    methods = Counter(line.method for line in lines)
    # pop: only the first line of a group finds its count.
    return [
        Line(
            **{key: value for key, value in vars(line).items() if key not in ("span", "method_span")},
            span=kinds.pop((line.method, line.part, line.metric), 0),
            method_span=methods.pop(line.method, 0),
        )
        for line in lines
    ]


def _doubts(rows: list[Row]) -> list[str]:
    """One sentence per objection to printed numbers, with the places it is about."""
    places: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        place = f"{row['method']} on {display.setting(row)}"
        if row["doubtful"] and place not in places[row["doubtful"]]:
            places[row["doubtful"]].append(place)
    return [f"{', '.join(where)}: {objection}" for objection, where in places.items()]


def _divergences(rows: list[Row]) -> list[str]:
    """One sentence per cell of which a seed diverged."""
    return _first_seen(
        f"{row['method']} ({', '.join(filter(None, [row['preset'], row['variant']]))}) on {display.setting(row)}: "
        f"{row['diverged']}"
        for row in rows
        if row["diverged"]
    )


def _first_seen(items: Iterable[H]) -> list[H]:
    return list(dict.fromkeys(items))


def _grouped(pairs: Iterable[tuple[str, H]]) -> list[tuple[str, H]]:
    """Each pair once, pairs with the same first half together, otherwise in the order they came."""
    halves: dict[str, dict[H, None]] = {}
    for first, second in pairs:
        halves.setdefault(first, {})[second] = None
    return [(first, second) for first, seconds in halves.items() for second in seconds]
