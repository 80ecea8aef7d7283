"""Figures 7 to 9 of Self-FL: training accuracy of personal models, and Sent140 after a warm start.

Accuracies are weighted by the clients' sample sizes, as the paper has them: pooled over all samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedbayes.analysis.drawing import Drawn
from fedbayes.analysis.figures.lines import curves, draw_line, legend_below, seeds_caption
from fedbayes.analysis.figures.looks import DASHES, looks
from fedbayes.analysis.figures.sources import Sources, closing, head, nothing_ran, say_not_run

TRAINING, TESTS = "train", "clean"  # conditions of rounds.parquet
SOLID, DASHED = DASHES["pm"], DASHES["gm"]
WARM_START = "FedAvg (warm start)"
# Experiments on tweets, the paper's own first; the figures are of the first one that ran.
TWEETS = ("sent140", "sent140-words", "sent140-subset")
PANEL = (3.6, 3.3)


class Half(NamedTuple):
    """A panel of Figure 7: its experiment, and what it is called where nothing ran."""

    experiment: str
    name: str


HALVES = (Half("figure7-mnist", "MNIST"), Half("femnist", "FEMNIST"))


def figure7(sources: Sources) -> Drawn:
    """Training accuracy of the personal models by round, Algorithm 1 beside Algorithm 2, on MNIST and on FEMNIST."""

    def chosen(sources: Sources) -> pd.DataFrame:
        return pd.concat([_algorithms(sources, half.experiment) for half in HALVES])

    halves = {half: _algorithms(sources, half.experiment) for half in HALVES}
    ran, unrun = chosen(sources), sources.unrun(chosen)
    look = looks(sorted(set(ran["method"])))
    if ran.empty:
        return nothing_ran("Figure 7")
    drawn = Figure(figsize=(2 * PANEL[0], PANEL[1]), layout="constrained")
    panels = list(drawn.subplots(1, 2))
    for panel, (half, cells) in zip(panels, halves.items(), strict=True):
        _frame(panel, "training accuracy (%)")
        if cells.empty:
            panel.set_title(half.name)
            say_not_run(panel)
            continue
        stands_in = f"{half.name}: " if cells["variant"].iloc[0] else ""
        panel.set_title(stands_in + sources.titles[cells["setting"].iloc[0]])
        for place, (method, own) in enumerate(cells.groupby("method", sort=True)):
            found = curves(own, sources.root, condition=TRAINING)
            draw_line(panel, found[found["model"] == "pm"], str(method), look[str(method)], SOLID, place)
    _finish(drawn, panels, ran, unrun)
    caption = (
        "Figure 7. Accuracy of the clients' personal models on their own training samples, pooled over all samples, "
        "against the communication round: Algorithm 1 (one model uploaded) and Algorithm 2 (on to the local optimum, "
        "two models uploaded). A client that was not active yet has the initial model. The paper states neither the "
        f"split nor the number of rounds; both are FedProx's or ours. {seeds_caption(ran)} {closing(ran, unrun)}"
    )
    return Drawn(drawn, caption)


def _algorithms(sources: Sources, experiment: str) -> pd.DataFrame:
    """The cells of both algorithms in an experiment's main setting, or in its first variant where that did not run."""
    index = sources.index
    cells = index[(index["experiment"] == experiment) & index["method"].str.startswith("Self-FL (Algorithm")]
    settings = [key for key in sources.titles if key in set(cells["setting"])]
    return cells[cells["setting"].isin(settings[:1])]


def figure8(sources: Sources) -> Drawn:
    """FedAvg's warm start on Sent140: accuracy by round on training and on test samples."""

    def chosen(sources: Sources) -> pd.DataFrame:
        cells = _tweets(sources)
        return cells[cells["method"] == WARM_START]

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran("Figure 8")
    drawn = Figure(figsize=(7.0, 3.6), layout="constrained")
    panel = drawn.subplots()
    _frame(panel, "accuracy (%)")
    panel.set_title(sources.titles[cells["setting"].iloc[0]])
    models = {"pm": "personal models (fine-tuned)", "gm": "global model"}
    kinds = ((TRAINING, "training samples", "full", SOLID), (TESTS, "test samples", "empty", DASHED))
    for place, ((model, name), look) in enumerate(zip(models.items(), looks(models).values(), strict=True)):
        for condition, samples, filling, dashes in kinds:
            found = curves(cells, sources.root, condition=condition)
            own = look._replace(filling=filling)
            draw_line(panel, found[found["model"] == model], f"{name}, {samples}", own, dashes, place)
    _finish(drawn, [panel], cells, unrun)
    caption = (
        "Figure 8. FedAvg on Sent140, the start of all methods of Figure 9: accuracy against the communication round, "
        "pooled over all clients' samples. Solid: on the clients' own training samples; dashed: on their test samples. "
        "The paper does not say whether its curves are of the global model or of what local training makes of it; both "
        f"are drawn. {seeds_caption(cells)} {closing(cells, unrun)}"
    )
    return Drawn(drawn, caption)


def figure9(sources: Sources) -> Drawn:
    """All methods on Sent140 after the warm start: training accuracy on the left, test accuracy on the right."""

    def chosen(sources: Sources) -> pd.DataFrame:
        cells = _tweets(sources)
        return cells[cells["method"] != WARM_START]

    cells, unrun = chosen(sources), sources.unrun(chosen)
    if cells.empty:
        return nothing_ran("Figure 9")
    tweets = _tweets(sources)
    first = int(tweets.loc[tweets["method"] == WARM_START, "rounds"].max())
    drawn = Figure(figsize=(2 * PANEL[0], PANEL[1] + 0.3), layout="constrained")
    panels = list(drawn.subplots(1, 2))
    kinds = ((TRAINING, "training accuracy (%)"), (TESTS, "test accuracy (%)"))
    for panel, (condition, label) in zip(panels, kinds, strict=True):
        _frame(panel, label)
        for place, (method, look) in enumerate(looks(cells["method"]).items()):
            found = curves(cells[cells["method"] == method], sources.root, condition=condition)
            own = found[found["model"] == "pm"]
            draw_line(panel, own.assign(round=first + own["round"]), method, look, SOLID, place)
    _finish(drawn, panels, cells, unrun)
    caption = (
        f"Figure 9. Personal models on Sent140 ({sources.titles[cells['setting'].iloc[0]]}) after {first} rounds of "
        "FedAvg, from whose global weights every method begins: accuracy on the clients' own training samples (left) "
        "and on their test samples (right), pooled over all samples, against the communication round, the warm start's "
        "counted. Every method takes the same number of local steps. The constants of the baselines are not stated and "
        f"are ours. {seeds_caption(cells)} {closing(cells, unrun)}"
    )
    return Drawn(drawn, caption)


def _tweets(sources: Sources) -> pd.DataFrame:
    """The cells of the first experiment on tweets that ran; none if none did."""
    index = sources.index
    ran = [experiment for experiment in TWEETS if experiment in set(index["experiment"])]
    return index[index["experiment"].isin(ran[:1])]


def _frame(panel: Axes, label: str) -> None:
    """Axes with their labels; rounds are whole numbers."""
    panel.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    panel.set_xlabel("communication round")
    panel.set_ylabel(label)
    panel.margins(x=0.02)


def _finish(drawn: Figure, panels: list[Axes], cells: pd.DataFrame, unrun: str) -> None:
    head(drawn, cells, unrun)
    legend_below(drawn, panels)


FIGURES: dict[str, Callable[[Sources], Drawn]] = {"figure7": figure7, "figure8": figure8, "figure9": figure9}
