"""Figures of pFedBayes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedbayes.analysis.drawing import Drawn
from fedbayes.analysis.figures.lines import RIVALS, accuracy_by_round, accuracy_caption
from fedbayes.analysis.figures.sources import Sources, closing, head, nothing_ran, one_line_each, read_runs

SIZES = ("mnist-small", "mnist-medium", "mnist-large")  # panels of Figure 2
SHOWN_CLIENTS = 5  # of Figure 3
PARTS = {"aleatoric-trace": ("aleatoric", "#56b4e9", ""), "epistemic-trace": ("epistemic", "#e69f00", "///")}


def _table1(sources: Sources) -> pd.DataFrame:
    """The cells of Figure 2: main settings of Table 1, and of BNFed the only ones; pFedBayes by all of its presets."""
    bnfed = sources.index[sources.index["experiment"] == "table1-bnfed"]
    bnfed = bnfed.assign(setting=bnfed["setting"].str.removesuffix("-unit"))
    cells = pd.concat([sources.cells("table1"), bnfed, sources.cells("table1-pfedgp")])
    return one_line_each(cells[cells["setting"].isin(SIZES)], "pFedBayes")


def figure2(sources: Sources) -> Drawn:
    """Accuracy by round on MNIST."""
    cells, unrun = _table1(sources), sources.unrun(_table1)
    if cells.empty:
        return nothing_ran("Figure 2")
    reading = accuracy_caption(cells, sources.logged, unrun)
    caption = f"Figure 2. {reading} BNFed has pixels in [0, 1]; Local is not in the paper. {RIVALS}"
    titles = {key: sources.titles[key] for key in SIZES if key in sources.titles}
    return Drawn(accuracy_by_round(cells, titles, sources.root, sources.logged, unrun), caption)


def figure3(sources: Sources) -> Drawn:
    """Predictive uncertainty of five clients at the rounds whose states the experiment keeps.

    What the paper plots is not said; here it is the variance of the predicted one-hot label, summed over classes and
    averaged over a client's test samples, in its two parts (Kwon et al. 2018).
    """

    def chosen(sources: Sources) -> pd.DataFrame:
        return sources.cells("figure3")

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran("Figure 3")
    rows = read_runs(cells, sources.root, "evaluation.parquet")
    rows = rows[rows["state"].str.startswith("round-") & (rows["model"] == "pm") & (rows["condition"] == "clean")]
    rows = rows[rows["client"].between(0, SHOWN_CLIENTS - 1) & rows["metric"].isin(list(PARTS))]
    means = rows.groupby(["round", "client", "metric"])["value"].mean()
    totals = rows.groupby(["round", "client", "seed"])["value"].sum().groupby(["round", "client"]).agg(["min", "max"])
    rounds = sorted(set(rows["round"]))
    drawn = Figure(figsize=(7.6, 3.2), layout="constrained")
    panels = drawn.subplots(1, len(rounds), sharey=True, squeeze=False)[0]
    for panel, round_ in zip(panels, rounds, strict=True):
        below = np.zeros(SHOWN_CLIENTS)
        for metric, (label, colour, hatch) in PARTS.items():
            heights = means[round_].unstack("metric")[metric].to_numpy()
            _draw_parts(panel, heights, below, label, colour, hatch)
            below += heights
        if cells["seed"].nunique() > 1:
            _draw_spread(panel, below, totals.loc[round_].to_numpy().T)
        panel.set(title=f"round {round_}", xlabel="client")
    panels[0].set_ylabel("predictive variance")
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=2)
    head(drawn, cells, unrun)
    seeds = "; the line spans the lowest to the highest sum of any seed" if cells["seed"].nunique() > 1 else ""
    caption = (
        f"Figure 3. Predictive uncertainty of the personal models of the first {SHOWN_CLIENTS} clients before training "
        "and after some rounds: the variance of the predicted label, summed over classes, mean over the client's test "
        f"samples and over seeds{seeds}. Aleatoric: what every draw of the weights finds uncertain; epistemic: what "
        "the draws disagree about. The paper does not say which quantity it plots, nor on which data. Preset paper: "
        "the public code's noise of 0.001 leaves no uncertainty to draw. "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def _draw_parts(panel: Axes, heights: np.ndarray, below: np.ndarray, label: str, colour: str, hatch: str) -> None:
    """One part of the clients' uncertainty, on top of the other."""
    places = np.arange(1, len(heights) + 1)
    panel.bar(places, heights, 0.7, below, color=colour, hatch=hatch, edgecolor="black", linewidth=0.6, label=label)
    panel.set_xticks(places)
    panel.grid(visible=False, axis="x")


def _draw_spread(panel: Axes, sums: np.ndarray, span: np.ndarray) -> None:
    """A line from the lowest to the highest sum of both parts over seeds, at each client's bar.

    Args:
        panel: where the bars are.
        sums: means over seeds, one a client.
        span: the lowest and the highest, [2, clients].
    """
    # Rounding may put the mean of equal values beside them.
    reach = np.abs(span - sums)
    panel.errorbar(np.arange(1, len(sums) + 1), sums, yerr=reach, linestyle="none", color="black", capsize=2)


FIGURES = {"figure2": figure2, "figure3": figure3}
