"""Accuracy, or another metric, against the round: a panel per setting, a line per method, preset and model.

Lines are means over seeds, bands span them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, MaxNLocator

from fedbayes.analysis.figures.looks import DASHES, Dashes, Look, looks
from fedbayes.analysis.figures.sources import closing, head, read_runs, say_not_run

LOGGED = {"pm": "#8a8a8a", "gm": "#b4b4b4"}  # greys of public logs, which have no markers
MARKERS_A_LINE = 8
POINTS_A_LINE = 200
LEGEND_INCHES = 2.35  # room for the longest entry
ENTRY_INCHES = 0.19  # height of an entry
START = 0.05  # the axis may cut off lines before this part of the rounds
COLUMNS = {1: 1, 2: 2, 4: 2}  # columns for a number of panels; otherwise three


@dataclass(frozen=True)
class Quantity:
    """What a line shows: a metric of `rounds.parquet`, the label of its axis, and what one of its units is there."""

    metric: str
    label: str
    factor: float = 1.0


ACCURACY = Quantity("accuracy", "test accuracy (%)", 100.0)
LOSS = Quantity("nll", "test loss (NLL)")
# Of figures whose cells `one_line_each` chose.
RIVALS = "Every other method is drawn by its first preset; the table of the same runs has all presets."


def seeds_caption(cells: pd.DataFrame) -> str:
    """What lines and bands are."""
    band = "the band spans the lowest to the highest seed" if cells["seed"].nunique() > 1 else "one seed, so no band"
    return f"Lines are means over seeds; {band}."


def accuracy_caption(cells: pd.DataFrame, logged: pd.DataFrame, unrun: str = "") -> str:
    """How to read `accuracy_by_round`: lines and bands, what did not run, scale, dataset, seeds, what was reduced."""
    text = (
        "Test accuracy, pooled over all clients, against the communication round. Solid: personal models (PM); "
        f"dashed: global model (GM); in brackets the preset. {seeds_caption(cells)} "
        f"The first rounds may lie below the axis. {closing(cells, unrun)}"
    )
    if len(logged):
        text += f" Grey, behind or alone: {', '.join(dict.fromkeys(logged['source']))}."
    return text


def accuracy_by_round(
    cells: pd.DataFrame, titles: Mapping[str, str], root: Path, logged: pd.DataFrame, unrun: str = ""
) -> Figure:
    """Pooled test accuracy against the round: a panel per setting of `titles`, a line per method, preset and model.

    A setting that did not run says so; `unrun` is what stands above the panels of all that did not.
    """
    columns = COLUMNS.get(len(titles), 3)
    rows = -(-len(titles) // columns)
    # A lone panel has the width of the page to itself.
    size = (7.0, 3.6) if columns == 1 else (3.6 * columns, 3.1 * rows + 0.5)
    drawn = Figure(figsize=size, layout="constrained")
    panels = drawn.subplots(rows, columns, squeeze=False).ravel()
    names = list(dict.fromkeys(zip(cells["method"], cells["preset"], strict=True)))
    for panel, (key, title) in zip(panels, titles.items(), strict=False):
        panel.set_title(title)
        ours = cells[cells["setting"] == key]
        if len(ours):
            _draw_panel(panel, ours, names, root, logged[logged["setting"] == key])
        else:
            _draw_unrun(panel, logged[logged["setting"] == key])
    for panel in panels[len(titles) :]:
        panel.set_axis_off()
    head(drawn, cells, unrun)
    legend_below(drawn, list(panels))
    return drawn


def quantities_by_round(
    cells: pd.DataFrame,
    titles: Mapping[str, str],
    root: Path,
    quantities: Sequence[Quantity],
    model: str,
    unrun: str = "",
) -> Figure:
    """One model's metrics against the round: a column per setting of `titles`, a row per quantity.

    A setting that did not run says so; `unrun` is what stands above the panels of all that did not.
    """
    drawn = Figure(figsize=(3.6 * len(titles), 2.8 * len(quantities) + 0.9), layout="constrained")
    panels = drawn.subplots(len(quantities), len(titles), squeeze=False)
    names = list(dict.fromkeys(zip(cells["method"], cells["preset"], strict=True)))
    for row, quantity in zip(panels, quantities, strict=True):
        for panel, (key, title) in zip(row, titles.items(), strict=True):
            ours = cells[cells["setting"] == key]
            panel.set_title(title)
            if len(ours):
                _draw_methods(panel, ours, names, root, quantity, [model])
                _dress(panel, quantity)
            else:
                say_not_run(panel)
    head(drawn, cells, unrun)
    legend_below(drawn, list(panels.ravel()))
    return drawn


def _draw_panel(
    panel: Axes, cells: pd.DataFrame, names: list[tuple[str, str]], root: Path, logged: pd.DataFrame
) -> None:
    _draw_methods(panel, cells, names, root, ACCURACY, ["pm", "gm"])
    _draw_logged(panel, logged, int(cells["rounds"].max()))
    _dress(panel, ACCURACY)


def _draw_methods(
    panel: Axes,
    cells: pd.DataFrame,
    names: list[tuple[str, str]],
    root: Path,
    quantity: Quantity,
    models: Sequence[str],
) -> None:
    """A line for each method, preset and model that ran, each with the same look in every panel."""
    own = looks(method for method, _ in names)
    for place, (method, preset) in enumerate(names):
        ours = cells[(cells["method"] == method) & (cells["preset"] == preset)]
        if ours.empty:
            continue
        values = curves(ours, root, quantity.metric)
        presets = [other for name, other in names if name == method]
        for model in models:
            every = values[values["model"] == model]
            if len(every):
                look = own[method].of(model, presets.index(preset))
                label = f"{method} ({preset}), {model.upper()}"
                draw_line(panel, every, label, look, DASHES[model], place, quantity.factor)


def _dress(panel: Axes, quantity: Quantity) -> None:
    # After every line: a limit that is set ends the automatic choice of the other one too.
    if quantity is ACCURACY:
        panel.set_ylim(bottom=_floor(panel))
    else:
        panel.set_ylim(top=_ceiling(panel))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    panel.set_xlabel("communication round")
    panel.set_ylabel(quantity.label)
    panel.margins(x=0.02)


def _draw_logged(panel: Axes, logged: pd.DataFrame, last: int) -> None:
    """What a public log holds, in grey behind our lines and no further than they go."""
    for (method, model), line in logged[logged["round"] <= last].groupby(["method", "model"], sort=False):
        label = f"{method}, public log, {str(model).upper()}"
        values = 100 * line["accuracy"]
        style, grey = DASHES[str(model)], LOGGED[str(model)]
        panel.plot(line["round"], values, linestyle=style, color=grey, linewidth=2.2, zorder=1, label=label)


def _draw_unrun(panel: Axes, logged: pd.DataFrame) -> None:
    """A panel whose cells did not run: says so, below the whole public log if there is one."""
    say_not_run(panel, 0.5 if logged.empty else 0.12)
    if len(logged):
        _draw_logged(panel, logged, int(logged["round"].max()))
        panel.spines[["left", "bottom"]].set_visible(True)
        panel.xaxis.set_major_locator(AutoLocator())
        panel.yaxis.set_major_locator(AutoLocator())
        _dress(panel, ACCURACY)


def curves(cells: pd.DataFrame, root: Path, metric: str = "accuracy", condition: str = "clean") -> pd.DataFrame:
    """A metric of every seed, pooled, under a condition: columns model, round, mean, low, high over seeds.

    Where a seed has no value any more, because it diverged, there is none: a mean over the others would look better.
    """
    rows = read_runs(cells, root, "rounds.parquet")
    rows = rows[(rows["condition"] == condition) & (rows["scope"] == "pooled") & (rows["metric"] == metric)]
    values = rows.groupby(["model", "round"])["value"]
    found = values.agg(mean="mean", low="min", high="max")
    return found.where(values.count() == values.size()).reset_index()


def draw_line(
    panel: Axes, every: pd.DataFrame, label: str, look: Look, dashes: Dashes, place: int = 0, factor: float = 100.0
) -> None:
    """One curve and its band over seeds.

    Args:
        panel: where to draw it.
        every: columns round, mean, low, high.
        label: what the legend says.
        look: its colour and marker.
        dashes: how the line is dashed.
        place: of the curve among others, whose markers stand beside its own.
        factor: what values are multiplied by: 100 shows fractions as percent.
    """
    step = -(-len(every) // POINTS_A_LINE)
    line = every[::-step][::-1]  # the last round is always drawn
    spacing = max(1, len(line) // MARKERS_A_LINE)
    markers = (place * spacing // 4 % spacing, spacing)
    shown = factor * line["mean"]
    panel.plot(line["round"], shown, linestyle=dashes, markevery=markers, label=label, **look.style)
    low, high = factor * line["low"], factor * line["high"]
    panel.fill_between(line["round"], low, high, color=look.colour, alpha=0.18, linewidth=0)


def _floor(panel: Axes) -> float:
    """Where the axis starts: below every line from a twentieth of its rounds on, so that the ends can be told apart."""
    return 5.0 * math.floor(min([*_settled(panel), 100.0]) / 5.0)


def _ceiling(panel: Axes) -> float:
    """Where the axis of a loss ends: above every line from there on."""
    return 1.05 * max([*_settled(panel), 0.0])


def _settled(panel: Axes) -> list[float]:
    """What the lines show from a twentieth of their rounds on, as far as it is finite."""
    lines = (np.asarray(line.get_data()) for line in panel.get_lines())
    return [float(y) for xs, ys in lines for x, y in zip(xs, ys, strict=True) if x >= START * xs[-1] and np.isfinite(y)]


def legend_below(drawn: Figure, panels: list[Axes], entry_inches: float = LEGEND_INCHES) -> None:
    """One legend below all panels, each line once; the figure grows by it.

    Args:
        drawn: the figure, high enough for its panels and a line of the legend.
        panels: whose lines the legend names.
        entry_inches: room for its longest entry.
    """
    found = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    columns = int(drawn.get_figwidth() / entry_inches)
    drawn.set_figheight(drawn.get_figheight() + ENTRY_INCHES * (-(-len(found) // columns) - 1))
    drawn.legend(list(found.values()), list(found), loc="outside lower left", ncols=columns, handlelength=3.5)
