"""Figures of LR-BPFL: calibration of the mean and of the worst client, adaptive ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from fedbayes.analysis.drawing import Drawn
from fedbayes.analysis.figures.lrbpfl_shifts import figure4, figure6
from fedbayes.analysis.figures.reliability import (
    ByClient,
    Shown,
    by_client,
    draw_diagrams,
    gaps,
    mean_bins,
    mean_gaps,
)
from fedbayes.analysis.figures.sources import (
    Sources,
    closing,
    first_presets,
    head,
    nothing_ran,
    read_runs,
    tested_model,
)
from fedbayes.io import TRAITS

BINS = 15  # the code's
RANKS = 8  # r_max
# Settings of CIFAR-10 with 10 % of the data: which of them a figure shows is not said.
CIFAR10 = ("2of10-train10", "5of10-train10")
CALIBRATED = ("FedAvg", "Per-FedAvg", "pFedBayes", "LR-BPFL")  # methods of Figures 1 and 3
READ = "The hatched part is the gap to the mean confidence in the bin, the dashed line is perfect calibration."
UNSAID = "Which of the CIFAR-10 settings the paper shows is not said: all that ran are here."


def _predictions(cells: pd.DataFrame, sources: Sources) -> pd.DataFrame:
    """What the tested model of some runs predicted for clients that trained, at its best round."""
    rows = read_runs(cells, sources.root, "predictions.parquet")
    return rows[(rows["model"] == tested_model(cells, sources.root)) & (rows["condition"] == "clean")]


def _calibrated(sources: Sources) -> pd.DataFrame:
    """The cells of Figures 1 and 3."""
    cells = first_presets(sources.cells("table5"))
    return cells[cells["setting"].isin(CIFAR10) & cells["method"].isin(CALIBRATED)]


def _ranked(sources: Sources) -> pd.DataFrame:
    """The cells of Figures 5 and 7."""
    cells = first_presets(sources.cells("table4"))
    return cells[cells["setting"].isin(CIFAR10)]


def _adaptive(sources: Sources) -> pd.DataFrame:
    """Those of them whose masks are adapted."""
    cells = _ranked(sources)
    return cells[cells["method"] == "LR-BPFL"]


def figure1(sources: Sources) -> Drawn:
    """Reliability diagrams of the mean client, CIFAR-10."""
    cells, unrun = _calibrated(sources), sources.unrun(_calibrated)
    if cells.empty:
        return nothing_ran("Figure 1")

    def panel(own: pd.DataFrame) -> Shown:
        each = by_client(_predictions(own, sources), BINS)
        return own["method"].iloc[0], mean_bins(each), mean_gaps(each)

    drawn = draw_diagrams(cells, CALIBRATED, sources.titles, panel, unrun)
    caption = (
        f"Figure 1. Accuracy by confidence, {BINS} bins worked out for each client and averaged over the clients (of "
        f"all seeds) that have samples in a bin, at the round of highest accuracy. {READ} ECE and MCE are means of "
        f"clients' own, so they are not those of the bars. FedAvg by its global model, others by personal ones. "
        f"{UNSAID} "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def figure3(sources: Sources) -> Drawn:
    """Reliability diagrams of the client with the highest ECE, CIFAR-10."""
    cells, unrun = _first_seed(_calibrated(sources)), sources.unrun(_calibrated)
    if cells.empty:
        return nothing_ran("Figure 3")

    def panel(own: pd.DataFrame) -> Shown:
        each = by_client(_predictions(own, sources), BINS)
        (_, client), worst = max(each.items(), key=lambda item: gaps(item[1])[0])
        return f"{own['method'].iloc[0]}, client {client}", worst, gaps(worst)

    drawn = draw_diagrams(cells, CALIBRATED, sources.titles, panel, unrun)
    caption = (
        f"Figure 3. Accuracy by confidence of each method's worst client, the one with the highest ECE, {BINS} bins, "
        f"at the round of highest accuracy; clients are counted from 0. {READ} Of the first seed alone. {UNSAID} "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def figure5(sources: Sources) -> Drawn:
    """Reliability diagrams of one client with and without adaptive ranks, CIFAR-10."""
    cells, unrun = _first_seed(_ranked(sources)), sources.unrun(_ranked)
    pairs = cells.groupby("setting")["method"].nunique()
    cells = cells[cells["setting"].isin(pairs[pairs == 2].index)]
    if cells.empty:
        return nothing_ran("Figure 5")
    methods = tuple(dict.fromkeys(cells["method"]))
    binned = {
        (setting, method): by_client(_predictions(own, sources), BINS)
        for (setting, method), own in cells.groupby(["setting", "method"])
    }
    chosen = {
        setting: middle_client([binned[setting, method] for method in methods])
        for setting in dict.fromkeys(cells["setting"])
    }

    def panel(own: pd.DataFrame) -> Shown:
        setting, method = own["setting"].iloc[0], own["method"].iloc[0]
        found = binned[setting, method][chosen[setting]]
        return f"{method}, client {chosen[setting][1]}", found, gaps(found)

    drawn = draw_diagrams(cells, methods, sources.titles, panel, unrun)
    caption = (
        f"Figure 5. Accuracy by confidence of one client without and with adaptive ranks (ARS), {BINS} bins, at the "
        f"round of highest accuracy. {READ} The paper does not name its client; this one has the median of all "
        "clients' ECE, averaged over both runs, so that neither is favoured. Of the first seed alone. "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def middle_client(runs: Sequence[ByClient]) -> tuple[int, int]:
    """The client whose ECE, averaged over runs, is the (lower) median of all clients'."""
    means = {client: np.mean([gaps(run[client])[0] for run in runs]) for client in runs[0]}
    return sorted(means, key=lambda client: (means[client], client))[(len(means) - 1) // 2]


def _first_seed(cells: pd.DataFrame) -> pd.DataFrame:
    first: pd.DataFrame = cells[cells["seed"] == cells["seed"].min()]
    return first


def figure7(sources: Sources) -> Drawn:
    """Final rank of each layer's mask at each client, CIFAR-10."""
    cells, unrun = _first_seed(_adaptive(sources)), sources.unrun(_adaptive)
    if cells.empty:
        return nothing_ran("Figure 7")
    settings = [key for key in sources.titles if key in set(cells["setting"])]
    tables = {key: final_ranks(cells[cells["setting"] == key], sources) for key in settings}
    clients = max(table.shape[1] for table in tables.values())
    drawn = Figure(figsize=(max(6.0, 0.17 * clients + 1.8), 2.5 * len(settings) + 0.6), layout="constrained")
    panels = drawn.subplots(len(settings), 1, squeeze=False)[:, 0]
    for panel, key in zip(panels, settings, strict=True):
        image = _draw_ranks(panel, tables[key], RANKS)
        panel.set_title(sources.titles[key])
    drawn.colorbar(image, ax=list(panels), label="rank", ticks=range(1, RANKS + 1))
    head(drawn, cells, unrun)
    caption = (
        "Figure 7. Ranks that are left of each layer's mask at each client after the last round of LR-BPFL, out of "
        f"r_max = {RANKS} (darker: more); clients are counted from 0. Of the first seed alone. {UNSAID} "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def final_ranks(cells: pd.DataFrame, sources: Sources) -> pd.DataFrame:
    """Ranks after the last round, layers as rows in the network's order, clients as columns."""
    rows = read_runs(cells, sources.root, "evaluation.parquet")
    rows = rows[(rows["model"] == TRAITS) & (rows["state"] == "last") & rows["metric"].str.startswith("rank/")]
    layers = [metric.removeprefix("rank/") for metric in dict.fromkeys(rows["metric"])]
    table = rows.assign(layer=rows["metric"].str.removeprefix("rank/")).pivot(
        index="layer", columns="client", values="value"
    )
    return table.loc[layers]


def _draw_ranks(panel: Axes, ranks: pd.DataFrame, most: int) -> AxesImage:
    """A shade and a number for each layer and client."""
    shades = ListedColormap(colormaps["Greys"](np.linspace(0.05, 0.8, most)))
    image = panel.imshow(ranks.to_numpy(), cmap=shades, vmin=0.5, vmax=most + 0.5, aspect="auto")
    for layer, row in enumerate(ranks.to_numpy()):
        for client, rank in enumerate(row):
            colour = "white" if rank > most / 2 else "black"
            panel.text(client, layer, f"{rank:.0f}", ha="center", va="center", fontsize=7, color=colour)
    panel.set_yticks(range(len(ranks)), list(ranks.index))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.grid(visible=False)
    panel.set(xlabel="client", ylabel="layer")
    return image


FIGURES: dict[str, Callable[[Sources], Drawn]] = {
    "figure1": figure1,
    "figure3": figure3,
    "figure4": figure4,
    "figure5": figure5,
    "figure6": figure6,
    "figure7": figure7,
}
