"""The figures of a paper as SVG and PNG, drawn from the rounds of its runs.

`FIGURES` maps `<paper>/<figure>` to the function that draws it; a paper's file asks for a figure by naming it under
`shows`. The same runs give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedbayes.analysis.display import count, dataset
from fedbayes.analysis.drawing import SOFT, Drawn, write_picture
from fedbayes.analysis.summarize import read_index
from fedbayes.reading import choice, complain

# Okabe and Ito's colours, told apart by the colour-blind; markers tell methods apart in print without colour.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
DASHES = {"pm": "-", "gm": (0, (4, 2))}
MARKERS_A_LINE = 8
POINTS_A_LINE = 200
LEGEND_INCHES = 2.6  # room for the longest entry
START = 0.05  # the axis may cut off lines before this part of the rounds
COLUMNS = {1: 1, 2: 2, 4: 2}  # columns for a number of panels; otherwise three


def figure(
    key: str, index_csv: Path, root: Path, titles: Mapping[str, str], logged_csv: Path, svg: Path, png: Path
) -> None:
    """Write one figure of a paper as SVG and PNG, with its caption in both.

    Args:
        key: `<paper>/<figure>`, as in `FIGURES`.
        index_csv: the paper's cells.
        root: the folder that the index's `folder` column starts from.
        titles: titles of the paper's settings, in the paper's order.
        logged_csv: curves that public logs hold (`config/curves.csv`), drawn behind ours.
        svg: the vector image to write.
        png: the pixel image to write.
    """
    if key not in FIGURES:
        raise complain("src/fedbayes/analysis/figures.py", "FIGURES", "no such figure: " + choice(key, FIGURES))
    write_picture(lambda: FIGURES[key](read_index(index_csv), titles, root, read_logged(logged_csv, key)), svg, png)


def read_logged(file: Path, key: str) -> pd.DataFrame:
    """Curves of public logs that belong to one figure: columns setting, method, model, round, accuracy, source."""
    paper, name = key.split("/")
    rows = pd.read_csv(file)
    return rows[(rows["paper"] == paper) & (rows["figure"] == name)]


def pfedbayes_figure2(index: pd.DataFrame, titles: Mapping[str, str], root: Path, logged: pd.DataFrame) -> Drawn:
    """Figure 2 of pFedBayes: accuracy by round on MNIST, the main settings of its Table 1."""
    cells = index[
        (index["experiment"] == "table1") & (index["published_dataset"] == "MNIST") & (index["variant"] == "")
    ]
    if cells.empty:
        return _nothing_ran("Figure 2")
    return Drawn(accuracy_by_round(cells, titles, root, logged), "Figure 2. " + accuracy_caption(cells, logged))


FIGURES: dict[str, Callable[[pd.DataFrame, Mapping[str, str], Path, pd.DataFrame], Drawn]] = {
    "pfedbayes/figure2": pfedbayes_figure2,
}


def accuracy_caption(cells: pd.DataFrame, logged: pd.DataFrame) -> str:
    """How to read `accuracy_by_round`: lines and bands, scale, dataset that really ran, seeds, what was reduced."""
    band = "the band spans the lowest to the highest seed" if cells["seed"].nunique() > 1 else "one seed, so no band"
    text = (
        "Test accuracy, pooled over all clients, against the communication round. Solid: personal models (PM); "
        f"dashed: global model (GM); in brackets the preset. Lines are means over seeds; {band}. "
        f"The first rounds may lie below the axis. {_what_ran(cells)}."
    )
    behind = logged[logged["setting"].isin(set(cells["setting"]))]
    if len(behind):
        text += f" Grey, behind: {', '.join(dict.fromkeys(behind['source']))}."
    reductions = "; ".join(dict.fromkeys(filter(None, cells["reduction"])))
    return text + (f" Reduced: {reductions}." if reductions else "")


def accuracy_by_round(cells: pd.DataFrame, titles: Mapping[str, str], root: Path, logged: pd.DataFrame) -> Figure:
    """Pooled test accuracy against the round: a panel per setting, a line per method, preset and model."""
    settings = [key for key in titles if key in set(cells["setting"])]
    columns = COLUMNS.get(len(settings), 3)
    rows = -(-len(settings) // columns)
    # A lone panel has the width of the page to itself.
    size = (7.0, 3.6) if columns == 1 else (3.6 * columns, 3.1 * rows + 0.5)
    drawn = Figure(figsize=size, layout="constrained")
    panels = drawn.subplots(rows, columns, squeeze=False).ravel()
    names = list(dict.fromkeys(zip(cells["method"], cells["preset"], strict=True)))
    for panel, key in zip(panels, settings, strict=False):
        _draw_panel(panel, cells[cells["setting"] == key], names, root, logged[logged["setting"] == key])
        panel.set_title(titles[key])
    for panel in panels[len(settings) :]:
        panel.set_axis_off()
    drawn.suptitle(_what_ran(cells), fontsize=9, color=SOFT, x=0.01, ha="left")
    _legend(drawn, list(panels))
    return drawn


def _draw_panel(
    panel: Axes, cells: pd.DataFrame, names: list[tuple[str, str]], root: Path, logged: pd.DataFrame
) -> None:
    for place, (method, preset) in enumerate(names):
        ours = cells[(cells["method"] == method) & (cells["preset"] == preset)]
        if len(ours):
            _draw_lines(panel, curves(ours, root), f"{method} ({preset})", place)
    _draw_logged(panel, logged, int(cells["rounds"].max()))
    # After every line: this ends the automatic choice of the upper limit too.
    panel.set_ylim(bottom=_floor(panel))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    panel.set_xlabel("communication round")
    panel.set_ylabel("test accuracy (%)")
    panel.margins(x=0.02)


def _draw_logged(panel: Axes, logged: pd.DataFrame, last: int) -> None:
    """What a public log holds, in grey behind our lines and no further than they go."""
    for (method, model), line in logged[logged["round"] <= last].groupby(["method", "model"], sort=False):
        label = f"{method}, public log, {str(model).upper()}"
        values = 100 * line["accuracy"]
        style = DASHES[str(model)]
        panel.plot(line["round"], values, linestyle=style, color="#9a9a9a", linewidth=2.2, zorder=1, label=label)


def _nothing_ran(name: str) -> Drawn:
    """An empty frame that says so: a figure is never silently absent."""
    text = f"{name}: not run at this scale."
    drawn = Figure(figsize=(7.0, 1.2))
    drawn.text(0.5, 0.5, text, ha="center", va="center", color=SOFT)
    return Drawn(drawn, text)


def curves(cells: pd.DataFrame, root: Path) -> pd.DataFrame:
    """Pooled clean accuracy of every seed: columns model, round, mean, low, high over seeds."""
    runs = [pd.read_parquet(root / folder / "rounds.parquet") for folder in cells["folder"]]
    rows = pd.concat(runs, ignore_index=True)
    rows = rows[(rows["condition"] == "clean") & (rows["scope"] == "pooled") & (rows["metric"] == "accuracy")]
    return rows.groupby(["model", "round"])["value"].agg(mean="mean", low="min", high="max").reset_index()


def _draw_lines(panel: Axes, values: pd.DataFrame, label: str, place: int) -> None:
    """Personal and global model of one method, in its colour and marker."""
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    for model, every in reversed(list(values.groupby("model"))):  # pm before gm
        step = -(-len(every) // POINTS_A_LINE)
        line = every[::-step][::-1]  # the last round is always drawn
        spacing = max(1, len(line) // MARKERS_A_LINE)
        panel.plot(
            line["round"],
            100 * line["mean"],
            color=colour,
            linestyle=DASHES[str(model)],
            marker=marker,
            markevery=(place * spacing // 4 % spacing, spacing),
            label=f"{label}, {str(model).upper()}",
        )
        panel.fill_between(line["round"], 100 * line["low"], 100 * line["high"], color=colour, alpha=0.18, linewidth=0)


def _floor(panel: Axes) -> float:
    """Where the axis starts: below every line from a twentieth of its rounds on, so that the ends can be told apart."""
    lowest = [float(min(y[x >= START * x[-1]])) for x, y in (np.asarray(line.get_data()) for line in panel.get_lines())]
    return 5.0 * math.floor(min(lowest) / 5.0)


def _legend(drawn: Figure, panels: list[Axes]) -> None:
    """One legend below all panels, each line once."""
    found = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    columns = int(drawn.get_figwidth() / LEGEND_INCHES)
    drawn.legend(list(found.values()), list(found), loc="outside lower left", ncols=columns, handlelength=3.5)


def _what_ran(cells: pd.DataFrame) -> str:
    """`Scale smoke, ran on MNIST-5k (stands in for MNIST), 1 seed`; `1 to 3 seeds` where curves differ in that."""
    pairs = dict.fromkeys(zip(cells["dataset_title"], cells["stand_in_for"], strict=True))
    data = ", ".join(dataset(name, real) for name, real in pairs)
    seeds = cells.groupby(["setting", "method", "preset"])["seed"].nunique()
    fewest = "" if seeds.min() == seeds.max() else f"{seeds.min()} to "
    return f"Scale {cells['scale'].iloc[0]}, ran on {data}, {fewest}{count(int(seeds.max()), 'seed')}"
