"""Figures 4 and 6 of LR-BPFL: clients unlike those that trained, and clients whose images are noisy."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedbayes.analysis.drawing import SOFT, Drawn
from fedbayes.analysis.figures.lines import COLOURS, MARKERS, seeds_caption
from fedbayes.analysis.figures.sources import (
    Sources,
    closing,
    first_presets,
    head,
    nothing_ran,
    read_runs,
    tested_model,
    what_ran,
)

NOISY, CLEAN = "5of10-noisy", "5of10-train10"
NEW = "new-client-"  # settings of Figure 4 are named after their alpha
Span = tuple[float, float, float]  # mean, lowest and highest over seeds


def _errors(cells: pd.DataFrame, sources: Sources, condition: str) -> pd.DataFrame:
    """Every metric of every client (and pooled, client -1) of the tested model in its best state."""
    model = tested_model(cells, sources.root)
    rows = read_runs(cells, sources.root, "evaluation.parquet")
    found: pd.DataFrame = rows[
        (rows["state"] == f"best-{model}") & (rows["model"] == model) & (rows["condition"] == condition)
    ]
    return found


def figure4(sources: Sources) -> Drawn:
    """Mean and worst ECE of new clients against the alpha of their labels' law."""
    cells = first_presets(sources.cells("new-clients"))
    if cells.empty:
        return nothing_ran("Figure 4")
    drawn = Figure(figsize=(9.2, 4.2), layout="constrained")
    panels = drawn.subplots(1, 2)
    for place, method in enumerate(dict.fromkeys(cells["method"])):
        values = new_client_errors(cells[cells["method"] == method], sources)
        for panel, scope in zip(panels, ("mean", "worst"), strict=True):
            _draw_errors(panel, values[values["scope"] == scope], method, place)
    for panel, title in zip(panels, ("A-ECE: mean of clients", "W-ECE: worst client"), strict=True):
        alphas = sorted(float(key.removeprefix(NEW)) for key in dict.fromkeys(cells["setting"]))
        panel.set_xticks([0.0, *alphas], ["0", *(f"{alpha:g}" for alpha in alphas)])
        panel.set(title=title, xlabel="alpha of the new clients; 0: training clients", ylabel="ECE (%)")
        panel.set_ylim(bottom=0)
        panel.margins(x=0.06)
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=4, handlelength=3.0)
    head(drawn, cells)
    caption = (
        "Figure 4. ECE, 15 bins, of clients that were not in training, against the alpha of the Dirichlet law of "
        "their labels; the point 0 are the training clients, whose alpha is 0.1. All are tested at the round where "
        f"training clients are most accurate. {seeds_caption(cells)} Sizes and training shares of these are not "
        "printed. FedBE, whose server holds samples of its own, is not in this figure. "
    )
    ran = set(cells["setting"])
    left = [title for key, title in sources.titles.items() if key.startswith(NEW) and key not in ran]
    missing = f"Not run at this scale: {', '.join(left)}. " if left else ""
    return Drawn(drawn, caption + missing + closing(cells))


def new_client_errors(cells: pd.DataFrame, sources: Sources) -> pd.DataFrame:
    """Columns alpha (0: clients that trained), scope (`mean`, `worst`), mean, low and high over seeds of the ECE."""
    parts = []
    for setting, own in cells.groupby("setting", sort=False):
        for alpha, condition in ((0.0, "clean"), (float(str(setting).removeprefix(NEW)), "new")):
            rows = _errors(own, sources, condition)
            ece = rows[(rows["metric"] == "ece15") & (rows["client"] >= 0)].groupby("seed")["value"]
            for scope, values in (("mean", ece.mean()), ("worst", ece.max())):
                parts.append(pd.DataFrame({"alpha": alpha, "scope": scope, "value": values.to_numpy()}))
    # Newcomers take no part in training, so the training clients of all settings are the same.
    found = pd.concat(parts).groupby(["alpha", "scope"])["value"]
    return found.agg(mean="mean", low="min", high="max").reset_index()


def _draw_errors(panel: Axes, values: pd.DataFrame, method: str, place: int) -> None:
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    panel.plot(values["alpha"], 100 * values["mean"], color=colour, marker=marker, markersize=6, label=method)
    panel.fill_between(values["alpha"], 100 * values["low"], 100 * values["high"], color=colour, alpha=0.18, lw=0)


def figure6(sources: Sources) -> Drawn:
    """Accuracy and ECE with clean and with noisy clients, CIFAR-10 5/10, 10 %."""
    noisy = first_presets(sources.cells("noisy"))
    clean = first_presets(sources.cells("table5"))
    clean = clean[clean["setting"] == CLEAN]
    cells = pd.concat([clean, noisy])
    if noisy.empty or clean.empty:
        return nothing_ran("Figure 6")
    drawn = Figure(figsize=(6.6, 4.8), layout="constrained")
    panel = drawn.subplots()
    for place, method in enumerate(dict.fromkeys(cells["method"])):
        by_setting = cells[cells["method"] == method].groupby("setting", sort=False)
        at = {str(setting): accuracy_and_error(own, sources) for setting, own in by_setting}
        _draw_pair(panel, at, method, place)
    panel.set(xlabel="test accuracy (%)", ylabel="ECE (%)")
    panel.margins(0.12)
    panel.set_ylim(bottom=0)
    drawn.legend(*panel.get_legend_handles_labels(), loc="outside lower left", ncols=4)
    drawn.suptitle(f"{what_ran(cells)}\nfilled: clean, empty: noisy", fontsize=9, color=SOFT, x=0.01, ha="left")
    unrun = [m for m in dict.fromkeys(clean["method"]) if m not in set(noisy["method"])]
    missing = f" Not run with noise at this scale: {', '.join(unrun)}." if unrun else ""
    caption = (
        "Figure 6. Test accuracy and ECE (15 bins), both pooled over clients, of CIFAR-10 5/10 with 10 % for "
        "training: filled with clean images, empty with a noise model of its own at each client, an arrow from one to "
        f"the other.{missing} Bars span the seeds. "
    )
    return Drawn(drawn, caption + closing(cells))


def _draw_pair(panel: Axes, at: dict[str, tuple[Span, Span]], method: str, place: int) -> None:
    """A method with clean clients (filled) and with noisy ones (empty), and an arrow between them."""
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    for number, (setting, (accuracy, error)) in enumerate(at.items()):
        panel.errorbar(
            accuracy[0],
            error[0],
            yerr=_reach(error),
            xerr=_reach(accuracy),
            fmt=marker,
            color=colour,
            markerfacecolor=colour if setting == CLEAN else "none",
            markersize=8,
            linewidth=0.8,
            label=None if number else method,
        )
    if len(at) == 2:
        begin, end = ((accuracy[0], error[0]) for accuracy, error in (at[CLEAN], at[NOISY]))
        arrow = {"arrowstyle": "->", "color": colour, "shrinkA": 6, "shrinkB": 6, "linewidth": 0.8, "linestyle": "--"}
        panel.annotate("", end, begin, arrowprops=arrow)


def _reach(span: Span) -> list[list[float]]:
    mean, low, high = span
    return [[mean - low], [high - mean]]


def accuracy_and_error(cells: pd.DataFrame, sources: Sources) -> tuple[Span, Span]:
    """Pooled accuracy and ECE in percent: each its mean, lowest and highest over seeds."""
    rows = _errors(cells, sources, "clean")
    pooled = rows[rows["client"] == -1]
    accuracy, error = (100 * pooled.loc[pooled["metric"] == metric, "value"] for metric in ("accuracy", "ece15"))
    return (accuracy.mean(), accuracy.min(), accuracy.max()), (error.mean(), error.min(), error.max())
