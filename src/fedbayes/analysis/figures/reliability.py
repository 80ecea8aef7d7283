"""Reliability diagrams: how often a model is right when it says how sure it is (Guo et al. 2017).

A bar for each bin of confidence shows the accuracy in it, a hatched one the gap to the confidence; beneath, how many
samples fall into each bin. Samples are pooled (`bins`), or binned client by client and averaged (`by_client`,
`mean_bins`), so that every client counts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedbayes.analysis.display import NOT_RUN
from fedbayes.analysis.drawing import SOFT
from fedbayes.analysis.figures.sources import head

ByClient = dict[tuple[int, int], pd.DataFrame]  # bins by seed and client
# What a panel shows of the cells of a setting and method: its title, bins, and the two errors in its corner.
Shown = tuple[str, pd.DataFrame, tuple[float, float]]

RIGHT, GAP = "#7fb2d6", "#d55e00"


def bins(predictions: pd.DataFrame, number: int) -> pd.DataFrame:
    """Samples, accuracy and mean confidence of each bin (lo, hi] of confidence; NaN where a bin is empty.

    The bins are those of `bayes/calibration.py`, from which the metrics come.
    """
    place = np.clip(np.ceil(predictions["confidence"].to_numpy(np.float64) * number), 1, number).astype(int) - 1
    table = pd.DataFrame(
        {
            "place": place,
            "right": (predictions["label"] == predictions["predicted"]).to_numpy(np.float64),
            "confidence": predictions["confidence"].to_numpy(np.float64),
        }
    )
    found = table.groupby("place").agg(
        samples=("right", "size"), accuracy=("right", "mean"), confidence=("confidence", "mean")
    )
    return found.reindex(range(number)).fillna({"samples": 0}).astype({"samples": int})


def gaps(binned: pd.DataFrame) -> tuple[float, float]:
    """Expected and maximum calibration error of binned predictions."""
    distance = (binned["accuracy"] - binned["confidence"]).abs().fillna(0.0)
    share = binned["samples"] / binned["samples"].sum()
    return float((share * distance).sum()), float(distance.max())


def by_client(predictions: pd.DataFrame, number: int) -> ByClient:
    """The bins of each client of each seed by itself."""
    owners = predictions[["seed", "client"]].drop_duplicates().sort_values(["seed", "client"])
    return {
        (int(seed), int(client)): bins(
            predictions[(predictions["seed"] == seed) & (predictions["client"] == client)], number
        )
        for seed, client in owners.itertuples(index=False)
    }


def mean_bins(each: ByClient) -> pd.DataFrame:
    """Accuracy and confidence of each bin, averaged over the clients that have samples in it; samples added up."""
    together = pd.concat(each.values()).groupby(level=0)
    return together.agg({"samples": "sum", "accuracy": "mean", "confidence": "mean"})


def mean_gaps(each: ByClient) -> tuple[float, float]:
    """Means over clients of their own ECE and MCE."""
    ece, mce = np.mean([gaps(binned) for binned in each.values()], axis=0)
    return float(ece), float(mce)


def draw_diagrams(
    cells: pd.DataFrame,
    methods: Sequence[str],
    titles: Mapping[str, str],
    shown: Callable[[pd.DataFrame], Shown],
    unrun: str = "",
) -> Figure:
    """A row of diagrams for each setting that ran and a column for each method; one that did not run says so.

    Args:
        cells: what ran.
        methods: all columns, in order.
        titles: titles of settings, in the paper's order.
        shown: what the panel of one setting and method shows of its cells.
        unrun: what stands above the panels of all that did not run.
    """
    settings = [key for key in titles if key in set(cells["setting"])]
    drawn = Figure(figsize=(2.75 * len(methods), 2.95 * len(settings) + 0.8), layout="constrained")
    panels = drawn.subplots(len(settings), len(methods), squeeze=False)
    for row, setting in zip(panels, settings, strict=True):
        for panel, method in zip(row, methods, strict=True):
            own = cells[(cells["setting"] == setting) & (cells["method"] == method)]
            if own.empty:
                panel.text(0.5, 0.5, NOT_RUN, ha="center", va="center", color=SOFT)
                panel.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence")
                title = method
            else:
                title, binned, errors = shown(own)
                draw_reliability(panel, binned, errors)
            panel.set_title(title, fontsize=9)
            panel.label_outer()
        row[0].set_ylabel(f"{titles[setting]}\naccuracy")
    handles = {
        label: handle for panel in panels.flat for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    drawn.legend(list(handles.values()), list(handles), loc="outside lower left", ncols=2)
    head(drawn, cells, unrun)
    return drawn


def draw_reliability(panel: Axes, binned: pd.DataFrame, errors: tuple[float, float] | None = None) -> None:
    """Accuracy by confidence beside the diagonal, with ECE and MCE in the corner: those of the bins, or `errors`."""
    number = len(binned)
    middle = (np.arange(number) + 0.5) / number
    accuracy, sure = binned["accuracy"].fillna(0.0), binned["confidence"].fillna(0.0)
    panel.bar(middle, accuracy, 1 / number, color=RIGHT, edgecolor="black", linewidth=0.5, label="accuracy")
    low, height = np.minimum(accuracy, sure), (accuracy - sure).abs()
    panel.bar(middle, height, 1 / number, low, fill=False, edgecolor=GAP, hatch="///", linewidth=0.8, label="gap")
    panel.plot([0, 1], [0, 1], color="black", linestyle=(0, (4, 2)), linewidth=1)
    ece, mce = errors or gaps(binned)
    behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}  # bars may stand there
    text = f"ECE {100 * ece:.1f} %\nMCE {100 * mce:.1f} %"
    panel.text(0.03, 0.97, text, va="top", transform=panel.transAxes, bbox=behind)
    panel.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")


def draw_histogram(panel: Axes, binned: pd.DataFrame) -> None:
    """Share of the samples in each bin of confidence."""
    number = len(binned)
    share = 100 * binned["samples"] / binned["samples"].sum()
    panel.bar((np.arange(number) + 0.5) / number, share, 1 / number, color="#9a9a9a", edgecolor="black", linewidth=0.5)
    panel.set(xlim=(0, 1), xlabel="confidence", ylabel="samples (%)")
