"""Self-FL's figures on MNIST: convergence with few active clients, and how many steps clients take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedbayes.analysis.display import count
from fedbayes.analysis.drawing import Drawn, from_zero
from fedbayes.analysis.figures.lines import accuracy_by_round, accuracy_caption
from fedbayes.analysis.figures.looks import DASHES, looks
from fedbayes.analysis.figures.sources import Sources, closing, head, nothing_ran, read_runs

AT_ROUND = 100  # of Figure 11 [A]
MOST_BINS = 20
OPEN = "The paper does not state the dataset of this figure (MNIST here) nor the learning rate. "


def figure10(sources: Sources) -> Drawn:
    """Accuracy of personal and global models by round, C = 0.02."""

    def chosen(sources: Sources) -> pd.DataFrame:
        return sources.cells("mnist-few-active")

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran("Figure 10")
    caption = (
        f"Figure 10. {accuracy_caption(cells, sources.logged, unrun)} "
        "In the paper 2 % of the clients are active in a round, and Self-FL's server moves by that share of the way "
        "to its new estimate. Pooled accuracy weights each client "
        "by its samples. FedAvg's personal models are the global one after a local visit. The paper states neither "
        "split, learning rates and number of rounds nor which accuracy it draws."
    )
    titles = {key: sources.titles[key] for key in dict.fromkeys(cells["setting"])}
    return Drawn(accuracy_by_round(cells, titles, sources.root, sources.logged, unrun), caption)


def figure11(sources: Sources) -> Drawn:
    """Histogram of the numbers of steps l_m that the clients of round 100 took, a panel for each preset."""
    cells, unrun = _self_fl(sources), sources.unrun(_self_fl)
    if cells.empty:
        return nothing_ran("Figure 11")
    presets = list(dict.fromkeys(cells["preset"]))
    drawn = Figure(figsize=(3.7 * max(len(presets), 1.4), 3.3), layout="constrained")
    said = []
    for panel, preset in zip(drawn.subplots(1, len(presets), squeeze=False)[0], presets, strict=True):
        steps = _steps(cells[cells["preset"] == preset], sources)
        at = min(AT_ROUND, int(steps["round"].max()))
        taken = steps.loc[steps["round"] == at, "value"]
        panel.hist(taken, bins=step_bins(taken), color="#9a9a9a", edgecolor="black", linewidth=0.6)
        panel.set(title=f"preset {preset}, round {at}", xlabel="local steps $l_m$", ylabel="clients")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True))
        said.append(f"{preset}: {count(len(taken), 'visit')} in round {at}")
    head(drawn, cells, unrun)
    caption = (
        "Figure 11. Self-FL's number of local steps of the clients that were active in one round, all seeds together "
        f"({'; '.join(said)}). In the paper it is round {AT_ROUND}, with 10 % of the clients active; where fewer "
        f"rounds ran, it is the last one. {OPEN}"
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def figure12(sources: Sources) -> Drawn:
    """The number of steps l_m of one client against the rounds it was active in, a line for each preset."""
    cells, unrun = _self_fl(sources), sources.unrun(_self_fl)
    if cells.empty:
        return nothing_ran("Figure 12")
    cells = cells[cells["seed"] == cells["seed"].min()]
    drawn = Figure(figsize=(7.0, 3.4), layout="constrained")
    panel, said, look = drawn.subplots(), [], looks(cells["method"])["Self-FL"]
    for place, (preset, own) in enumerate(cells.groupby("preset", sort=False)):
        steps = _steps(own, sources)
        client = busiest(steps)
        line = steps[steps["client"] == client]
        label = f"preset {preset}, client {client}"
        dashes = list(DASHES.values())[place % 2]
        panel.plot(line["round"], line["value"], linestyle=dashes, label=label, **look.of("pm", place).style)
        said.append(f"{preset}: client {client}, {count(len(line), 'visit')}")
    panel.set(xlabel="communication round", ylabel="local steps $l_m$", xlim=(0, None))
    from_zero(panel)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True))
    drawn.legend(loc="outside lower left", ncols=2)
    head(drawn, cells, unrun)
    caption = (
        "Figure 12. Self-FL's number of local steps of one client against the rounds it was active in: the client that "
        f"was active most often, of the first seed ({'; '.join(said)}). {OPEN}Nor does it say which client it draws. "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def busiest(steps: pd.DataFrame) -> int:
    """The client with most visits; of several the one with the lowest number."""
    visits = steps["client"].value_counts()
    return int(visits[visits == visits.max()].index.min())


def _self_fl(sources: Sources) -> pd.DataFrame:
    cells = sources.cells("mnist")
    return cells[cells["method"] == "Self-FL"]


def _steps(cells: pd.DataFrame, sources: Sources) -> pd.DataFrame:
    """Columns round, client, value and seed of every visit."""
    visits = read_runs(cells, sources.root, "visits.parquet")
    return visits[visits["metric"] == "steps"]


def step_bins(taken: pd.Series[float]) -> np.ndarray:
    """Bins of equal width, a whole number of steps each, with whole numbers in their middle."""
    first, last = int(taken.min()), int(taken.max())
    width = -(-(last - first + 1) // MOST_BINS)
    return np.arange(first, last + width + 1, width) - 0.5


FIGURES: dict[str, Callable[[Sources], Drawn]] = {"figure10": figure10, "figure11": figure11, "figure12": figure12}
