"""A matrix turned on its side: settings as rows.

`by_setting` has models with published and ours as columns. It is for tables of hyperparameters, which have dozens of
settings and few methods; a row stands for a setting and a method that has a number there. `by_cell` has metrics as
columns and a row for each setting, method, preset and variant that ran. It is for tables without printed numbers.
`by_metric` has metrics as columns and ours beneath theirs; it is for tables of costs, whose settings say what was
measured and on which machine of the paper's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby

from fedbayes.analysis import display
from fedbayes.analysis.matrix import Entry, Line, Matrix
from fedbayes.analysis.published import meaning_of

# The most settings a page shows side by side.
MOST_COLUMNS = 12
UNRUN = "ours"  # the source of a line of which nothing ran


@dataclass(frozen=True)
class Item:
    """One row: a setting and a method, or what `heads` say; spans count rows of the first two, 0 under another's."""

    dataset: str
    setting: str
    method: str
    entries: list[Entry]
    span: int = 0
    setting_span: int = 0


@dataclass(frozen=True)
class Listing:
    """The table: `groups` are kinds of models and metrics with the number of their columns, named by `sources`."""

    groups: list[tuple[str, int]]
    sources: list[str]
    items: list[Item]
    heads: tuple[str, str, str] = ("Dataset", "Setting", "Method")


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


def by_cell(table: Matrix) -> Listing:
    """A row for each cell that ran, a column for each metric of each model."""
    metrics = list(dict.fromkeys(line.metric for line in table.lines))
    cells = list(dict.fromkeys((line.method, line.source) for line in table.lines))
    lines = {(line.method, line.source, line.metric): line for line in table.lines}
    nothing = Entry(display.NOTHING, missing=True)
    items: list[Item] = []
    for place, (_, setting) in enumerate(table.columns):
        for method, source in cells:
            own = [lines.get((method, source, metric)) for metric in metrics]
            entries = [line.entries[place] if line else nothing for line in own]
            if not all(entry.missing for entry in entries):
                shown = [replace(entry, text=display.NOTHING) if entry.missing else entry for entry in entries]
                items.append(Item(table.data[place], setting, f"{method} ({source.removeprefix('ours, ')})", shown))
    models = [str(meaning_of(metric).model).upper() for metric in metrics]
    groups = [(model, len(list(members))) for model, members in groupby(models)]
    return Listing(groups, [display.measure(metric) for metric in metrics], _spanned(items))


def by_metric(table: Matrix) -> Listing:
    """A row for each method's printed numbers and for each of its presets and variants, a column for each metric."""
    metrics = list(dict.fromkeys(line.metric for line in table.lines))
    sources: dict[str, dict[str, None]] = {}
    for line in table.lines:
        sources.setdefault(line.method, {})[line.source] = None
    items: list[Item] = []
    for dataset in dict.fromkeys(dataset for dataset, _ in table.columns):
        places = [at for at, (own, _) in enumerate(table.columns) if own == dataset]
        for method, found in sources.items():
            ran = [source for source in found if source not in (UNRUN, "published")]
            for source in found if not ran else (source for source in found if source != UNRUN):
                entries = [_first(table.lines, method, metric, source, places) for metric in metrics]
                items.append(Item(dataset, method, source, entries))
    groups, names = [("cost", len(metrics))], [display.measure(metric) for metric in metrics]
    return Listing(groups, names, _spanned(items), heads=("Dataset", "Method", "Source"))


def _first(lines: list[Line], method: str, metric: str, source: str, places: list[int]) -> Entry:
    """The entry of a metric in the setting that has it."""
    found = [_entry(lines, method, metric, source, place) for place in places]
    return next((entry for entry in found if entry.text != display.NOTHING), found[0])


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
    datasets = Counter(item.dataset for item in items)
    settings = Counter((item.dataset, item.setting) for item in items)
    # pop: only the first row of a group finds its count.
    return [
        replace(item, span=datasets.pop(item.dataset, 0), setting_span=settings.pop((item.dataset, item.setting), 0))
        for item in items
    ]
