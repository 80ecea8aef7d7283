"""Figures of BPFed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from fedbayes.analysis.drawing import SOFT, Drawn
from fedbayes.analysis.figures.lines import accuracy_by_round, accuracy_caption
from fedbayes.analysis.figures.reliability import bins, draw_histogram, draw_reliability
from fedbayes.analysis.figures.sources import Sources, closing, nothing_ran, read_runs, what_ran

BINS = 10  # the code's
# Experiments that hold a part of Table I, whose runs the curves are of.
TABLE1 = ("table1", "table1-cifar10", "table1-cifar10-bpfed", "table1-cifar10-perfedavg")


def curves(dataset: str, name: str, sources: Sources) -> Drawn:
    """Figures 3 to 5: accuracy by round on one dataset, runs of Table I.

    The paper's plotting code smooths over 20 rounds; we draw every round as it is.
    """
    cells = pd.concat([sources.cells(experiment) for experiment in TABLE1])
    cells = cells[cells["published_dataset"] == dataset]
    if cells.empty:
        return nothing_ran(name)
    caption = f"{name}. {accuracy_caption(cells, sources.logged)} Not smoothed; the paper's code averages 20 rounds."
    return Drawn(accuracy_by_round(cells, sources.titles, sources.root, sources.logged), caption)


def figure6(sources: Sources) -> Drawn:
    """Reliability diagram and histogram of BPFed's confidence on MNIST, small and large."""
    cells = sources.cells("table2")
    cells = cells[(cells["method"] == "BPFed") & (cells["published_dataset"] == "MNIST")]
    if cells.empty:
        return nothing_ran("Figure 6")
    settings = [key for key in sources.titles if key in set(cells["setting"])]
    drawn = Figure(figsize=(4.2 * len(settings), 4.6), layout="constrained")
    panels = drawn.subplots(2, len(settings), squeeze=False, height_ratios=[3, 1.4], sharex=True)
    for column, key in zip(panels.T, settings, strict=True):
        predicted = read_runs(cells[cells["setting"] == key], sources.root, "predictions.parquet")
        binned = bins(predicted[(predicted["model"] == "pm") & (predicted["condition"] == "clean")], BINS)
        draw_reliability(column[0], binned)
        draw_histogram(column[1], binned)
        column[0].set(title=sources.titles[key], xlabel="")
    drawn.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower left", ncols=2)
    drawn.suptitle(what_ran(cells), fontsize=9, color=SOFT, x=0.01, ha="left")
    caption = (
        f"Figure 6. Above: accuracy of BPFed's personal models by confidence, {BINS} bins, at the round of highest "
        "accuracy; the hatched part is the gap to the mean confidence in the bin, the dashed line is perfect "
        "calibration. Below: share of the test samples in each bin. Samples of all clients and seeds are pooled. "
    )
    return Drawn(drawn, caption + closing(cells))


FIGURES: dict[str, Callable[[Sources], Drawn]] = {
    "figure3": partial(curves, "MNIST", "Figure 3"),
    "figure4": partial(curves, "FMNIST", "Figure 4"),
    "figure5": partial(curves, "CIFAR-10", "Figure 5"),
    "figure6": figure6,
}
