"""Self-FL's figures of the synthetic experiments: errors of estimates against the activity rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedbayes.analysis.drawing import Drawn, from_zero
from fedbayes.analysis.figures.lines import legend_below
from fedbayes.analysis.figures.looks import DASHES, Look, looks
from fedbayes.analysis.figures.sources import Sources, closing, head, nothing_ran, read_runs
from fedbayes.io import read_json

HOMOGENEOUS, HETEROGENEOUS = "synthetic-homogeneous", "synthetic-heterogeneous"
CASES = {HOMOGENEOUS: "homogeneous clients", HETEROGENEOUS: "heterogeneous clients"}
METHODS = ("FedAvg", "DITTO", "pFedMe", "Per-FedAvg", "Self-FL")
ALGORITHMS = {"Self-FL": "Algorithm 1", "Augmented Self-FL": "Algorithm 2"}
APART = 0.006  # lines stand so far beside each other, because several methods share their server's estimate
SHORT_ENTRY = 1.4  # inches of a legend's entry
PANELS = {"gm": "(a) global error", "pm": "(b) local error"}
OPEN = (
    "The paper does not state the starting point (0 here), the constants of DITTO (lambda 0.1, unscaled) and of pFedMe "
    "(lambda 15), nor what errors are measured from (the true means here)."
)


def errors(cells: pd.DataFrame, root: Path) -> pd.DataFrame:
    """Mean error and its standard error over repeats, by model, method and activity rate C.

    Where there are several seeds they share their data, and a repeat counts with its mean over them.
    """
    tables = []
    for _, cell in cells.iterrows():
        spec = read_json(root / cell["folder"] / "run.json")["spec"]
        rate = spec["training"]["clients_per_round"] / spec["split"]["clients"]
        rows = read_runs(cells.loc[[cell.name]], root, "evaluation.parquet")
        rows = rows[(rows["state"] == "last") & (rows["metric"] == "error") & (rows["client"] >= 0)]
        tables.append(rows.assign(method=cell["method"], rate=rate))
    keys = ["model", "method", "rate"]
    repeats = pd.concat(tables).groupby([*keys, "client"])["value"].mean()
    return repeats.groupby(keys).agg(mean="mean", sem="sem").reset_index()


def by_activity(experiment: str, name: str, sources: Sources) -> Drawn:
    """Figures 4 and 5: global and local error of every method against the activity rate C."""

    def chosen(sources: Sources) -> pd.DataFrame:
        cells = sources.cells(experiment)
        return cells[cells["method"].isin(METHODS)]

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran(name)
    found = errors(cells, sources.root)
    drawn = Figure(figsize=(7.4, 3.7), layout="constrained")
    panels = drawn.subplots(1, 2)
    for panel, (model, title) in zip(panels, PANELS.items(), strict=True):
        for place, (method, look) in enumerate(looks(METHODS).items()):
            beside = APART * (place - (len(METHODS) - 1) / 2)
            line = found[(found["model"] == model) & (found["method"] == method)]
            _draw_line(panel, line, method, look, place, beside)
        _finish(panel, title)
    head(drawn, cells, unrun)
    legend_below(drawn, list(panels), SHORT_ENTRY)
    caption = f"{name}. {CASES[experiment].capitalize()}: {_reading()}{OPEN} {closing(cells, unrun)}"
    return Drawn(drawn, caption)


def figure6(sources: Sources) -> Drawn:
    """Figure 6: Algorithms 1 and 2 against the activity rate, a row for each case."""

    def chosen(sources: Sources) -> pd.DataFrame:
        cells = pd.concat([sources.cells(case) for case in CASES])
        cells = cells[cells["method"].isin(ALGORITHMS)]
        return cells.assign(method=cells["method"].map(ALGORITHMS))

    every, unrun = chosen(sources), sources.unrun(chosen)
    if every.empty:
        return nothing_ran("Figure 6")
    ran = [case for case in CASES if case in set(every["experiment"])]
    drawn = Figure(figsize=(7.4, 2.9 * len(ran) + 0.6), layout="constrained")
    panels = drawn.subplots(len(ran), 2, squeeze=False)
    for row, case in zip(panels, ran, strict=True):
        found = errors(every[every["experiment"] == case], sources.root)
        for panel, (model, title) in zip(row, PANELS.items(), strict=True):
            for place, (method, look) in enumerate(looks(ALGORITHMS).items()):
                label = ALGORITHMS[method]
                line = found[(found["model"] == model) & (found["method"] == label)]
                _draw_line(panel, line, label, look, place, APART * (place - 0.5))
            _finish(panel, f"{title}, {CASES[case]}")
    head(drawn, every, unrun)
    legend_below(drawn, list(panels.ravel()), SHORT_ENTRY)
    open_points = "The paper does not state the starting point (0 here) nor the activity rates of this figure."
    return Drawn(drawn, f"Figure 6. Self-FL's two algorithms: {_reading()}{open_points} {closing(every, unrun)}")


def _draw_line(panel: Axes, line: pd.DataFrame, label: str, look: Look, place: int, beside: float) -> None:
    """One method: means with standard errors, moved a little to the side."""
    if line.empty:
        return
    panel.errorbar(
        line["rate"] + beside,
        line["mean"],
        yerr=line["sem"],
        label=label,
        linestyle=list(DASHES.values())[place % 2],
        capsize=2.5,
        **look.style,
    )


def _finish(panel: Axes, title: str) -> None:
    panel.set(title=title, xlabel="activity rate C", ylabel="mean absolute error", xlim=(0, 1.05))
    from_zero(panel)
    panel.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))


def _reading() -> str:
    return (
        "(a) distance of the server's estimate from the true common mean, (b) of the clients' estimates from their own "
        "true means, averaged over clients, both after the last round and averaged over repeats, against the share C "
        "of clients that are active in a round. Bars are standard errors over repeats; lines stand a little "
        "beside each other. "
    )


FIGURES: dict[str, Callable[[Sources], Drawn]] = {
    "figure4": partial(by_activity, HOMOGENEOUS, "Figure 4"),
    "figure5": partial(by_activity, HETEROGENEOUS, "Figure 5"),
    "figure6": figure6,
}
