"""Figures of BPFed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import pandas as pd
from matplotlib.figure import Figure

from fedbayes.analysis.drawing import Drawn
from fedbayes.analysis.figures.bars import draw_bars
from fedbayes.analysis.figures.lines import RIVALS, accuracy_by_round, accuracy_caption
from fedbayes.analysis.figures.reliability import bins, draw_histogram, draw_reliability
from fedbayes.analysis.figures.sources import Sources, closing, head, nothing_ran, one_line_each, read_runs, say_not_run

PREFIXES = {"MNIST": "mnist", "FMNIST": "fmnist", "CIFAR-10": "cifar10"}  # of the names of settings
BINS = 10  # the code's
# Experiments that hold a part of Table I, whose runs the curves are of.
TABLE1 = ("table1", "table1-cifar10", "table1-cifar10-perfedavg", "table1-text", "table1-text-cifar10")
TABLE2 = ("table2", "table2-text")  # likewise, without CIFAR-10
# Experiments with a client that joins after training, and the methods of Figures 7 to 9 in the paper's order.
NEW_CLIENT = ("new-client", "new-client-cifar10")
NEW_CLIENT_METHODS = ("FedPer", "LG-FedAvg", "FedRep", "FedSOUL", "BPFed")


def curves(dataset: str, name: str, sources: Sources) -> Drawn:
    """Figures 3 to 5: accuracy by round on one dataset, runs of Table I.

    The paper's plotting code smooths over 20 rounds; we draw every round as it is.
    """

    def chosen(sources: Sources) -> pd.DataFrame:
        cells = pd.concat([sources.cells(experiment) for experiment in TABLE1])
        return one_line_each(cells[cells["published_dataset"] == dataset], "BPFed")

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran(name)
    reading = accuracy_caption(cells, sources.logged, unrun)
    caption = f"{name}. {reading} Not smoothed; the paper's code averages 20 rounds. {RIVALS}"
    titles = _sizes(sources, PREFIXES[dataset])
    return Drawn(accuracy_by_round(cells, titles, sources.root, sources.logged, unrun), caption)


def _sizes(sources: Sources, dataset: str, suffix: str = "") -> dict[str, str]:
    """Titles of a dataset's settings with small and with large data."""
    keys = [f"{dataset}-{size}{suffix}" for size in ("small", "large")]
    return {key: sources.titles[key] for key in keys if key in sources.titles}


def figure6(sources: Sources) -> Drawn:
    """Reliability diagrams and histograms of BPFed's confidence on MNIST, small and large, a pair of rows a preset."""

    def chosen(sources: Sources) -> pd.DataFrame:
        cells = pd.concat([sources.cells(experiment) for experiment in TABLE2])
        return cells[(cells["method"] == "BPFed") & (cells["published_dataset"] == "MNIST")]

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran("Figure 6")
    titles, presets = _sizes(sources, "mnist"), list(dict.fromkeys(cells["preset"]))
    drawn = Figure(figsize=(4.2 * len(titles), 4.6 * len(presets)), layout="constrained")
    panels = drawn.subplots(2 * len(presets), len(titles), squeeze=False, height_ratios=[3, 1.4] * len(presets))
    pairs = zip(panels[::2].ravel(), panels[1::2].ravel(), product(presets, titles.items()), strict=True)
    for above, below, (preset, (key, title)) in pairs:
        above.set_title(f"{title} ({preset})")
        own = cells[(cells["setting"] == key) & (cells["preset"] == preset)]
        if own.empty:
            say_not_run(above)
            below.set_axis_off()
            continue
        predicted = read_runs(own, sources.root, "predictions.parquet")
        binned = bins(predicted[(predicted["model"] == "pm") & (predicted["condition"] == "clean")], BINS)
        draw_reliability(above, binned)
        draw_histogram(below, binned)
        above.set_xlabel("")
    drawn.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower left", ncols=2)
    head(drawn, cells, unrun)
    caption = (
        f"Figure 6. Accuracy of BPFed's personal models by confidence, {BINS} bins, at the round of highest accuracy; "
        "in brackets the preset. The hatched part is the gap to the mean confidence in the bin, the dashed line is "
        "perfect calibration. Beneath: share of the test samples in each bin. Samples of all clients and seeds are "
        "pooled. "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def new_client(dataset: str, name: str, sources: Sources) -> Drawn:
    """Figures 7 to 9: accuracy of a client that joins after training, a bar for each method, small and large data."""

    def chosen(sources: Sources) -> pd.DataFrame:
        cells = pd.concat([sources.cells(experiment) for experiment in NEW_CLIENT])
        return cells[cells["setting"].str.startswith(dataset) & cells["method"].isin(NEW_CLIENT_METHODS)]

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran(name)
    rows = [
        (title.split(",")[0], method, *_accuracy_of_new(cells, setting, method, sources))
        for method in NEW_CLIENT_METHODS
        for setting, title in _sizes(sources, dataset, "-new").items()
    ]
    drawn = Figure(figsize=(7.0, 3.4), layout="constrained")
    panel = drawn.subplots()
    values = pd.DataFrame(rows, columns=["group", "series", "mean", "low", "high"])
    draw_bars(panel, values)
    panel.set_ylabel("accuracy of the new client (%)")
    drawn.legend(*panel.get_legend_handles_labels(), loc="outside lower left", ncols=len(NEW_CLIENT_METHODS))
    head(drawn, cells, unrun)
    spread = "; the line spans the lowest to the highest seed" if cells["seed"].nunique() > 1 else ""
    caption = (
        f"{name}. Test accuracy of the first client, which joins after training and trains its private part alone, the "
        f"shared part frozen. Bars are means over seeds{spread}. The paper prints no numbers here and does not say "
        "over what its bars are averages. "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def _accuracy_of_new(cells: pd.DataFrame, setting: str, method: str, sources: Sources) -> tuple[float, float, float]:
    """Mean, lowest and highest accuracy over seeds in percent; NaN where nothing ran."""
    own = cells[(cells["setting"] == setting) & (cells["method"] == method)]
    if own.empty:
        return (float("nan"),) * 3
    tested = read_runs(own, sources.root, "evaluation.parquet")
    tested = tested[(tested["state"] == "last") & (tested["model"] == "pm") & (tested["condition"] == "new")]
    accuracy = 100 * tested.loc[(tested["client"] == -1) & (tested["metric"] == "accuracy"), "value"]
    return float(accuracy.mean()), float(accuracy.min()), float(accuracy.max())


FIGURES: dict[str, Callable[[Sources], Drawn]] = {
    "figure3": partial(curves, "MNIST", "Figure 3"),
    "figure4": partial(curves, "FMNIST", "Figure 4"),
    "figure5": partial(curves, "CIFAR-10", "Figure 5"),
    "figure6": figure6,
    "figure7": partial(new_client, "mnist", "Figure 7"),
    "figure8": partial(new_client, "fmnist", "Figure 8"),
    "figure9": partial(new_client, "cifar10", "Figure 9"),
}
