"""A matrix of many settings turned on its side: settings as rows, models with published and ours as columns.

For tables of hyperparameters, which have dozens of settings and few methods. A row stands for a setting and a method
that has a number there.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedbayes.analysis import display
from fedbayes.analysis.matrix import Entry, Line, Matrix

# The most settings a page shows side by side.
MOST_COLUMNS = 12
UNRUN = "ours"  # the source of a line of which nothing ran


@dataclass(frozen=True)
class Item:
    """One row: a setting and a method; `span` counts the rows of a dataset, written on its first row."""

    dataset: str
    setting: str
    method: str
    entries: list[Entry]
    span: int = 0


@dataclass(frozen=True)
class Listing:
    """The table: `groups` are kinds of models and metrics with the number of their columns, named by `sources`."""

    groups: list[tuple[str, int]]
    sources: list[str]
    items: list[Item]


def by_setting(table: Matrix) -> Listing:
    """The same entries, setting by setting."""
    metrics = list(dict.fromkeys(line.metric for line in table.lines))
    columns = [(metric, source) for metric in metrics for source in _sources(table.lines, metric)]
    methods = list(dict.fromkeys(line.method for line in table.lines))
    items: list[Item] = []
    for place, (dataset, setting) in enumerate(table.columns):
        rows = [(method, [_entry(table.lines, method, *column, place) for column in columns]) for method in methods]
        filled = [(method, entries) for method, entries in rows if any(e.text != display.NOTHING for e in entries)]
        items += [Item(dataset, setting, method, entries) for method, entries in filled]
    groups = [(_kind(table.lines, metric), len(_sources(table.lines, metric))) for metric in metrics]
    return Listing(groups, [source for _, source in columns], _spanned(items))


def _sources(lines: list[Line], metric: str) -> list[str]:
    """Published first, then ours; the place of methods of which nothing ran only where nothing ran at all."""
    found = dict.fromkeys(line.source for line in lines if line.metric == metric)
    ours = [line.source for line in lines if line.metric == metric and not line.published and line.source != UNRUN]
    return sorted((s for s in found if s != UNRUN or not ours), key=lambda source: source != "published")


def _entry(lines: list[Line], method: str, metric: str, source: str, place: int) -> Entry:
    """The entry of the method's line of that source, or of its line that says that nothing ran."""
    own = {line.source: line for line in lines if (line.method, line.metric) == (method, metric)}
    line = own.get(source) or (own.get(UNRUN) if source != "published" else None)
    return line.entries[place] if line else Entry(display.NOTHING, missing=True)


def _kind(lines: list[Line], metric: str) -> str:
    """`PM`, or both kinds where the metric names none and methods differ."""
    return " / ".join(dict.fromkeys(line.model for line in lines if line.metric == metric and line.model))


def _spanned(items: list[Item]) -> list[Item]:
    spans: dict[str, int] = {}
    for item in items:
        spans[item.dataset] = spans.get(item.dataset, 0) + 1
    # pop: only the first row of a dataset finds its count.
    return [Item(item.dataset, item.setting, item.method, item.entries, spans.pop(item.dataset, 0)) for item in items]
