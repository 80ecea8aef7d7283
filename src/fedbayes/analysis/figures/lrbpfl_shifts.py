"""Figures 4 and 6 of LR-BPFL: clients unlike those that trained, and clients whose images are noisy."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedbayes.analysis.drawing import Drawn, from_zero
from fedbayes.analysis.figures.lines import seeds_caption
from fedbayes.analysis.figures.looks import Look, looks
from fedbayes.analysis.figures.sources import (
    Sources,
    closing,
    first_presets,
    head,
    nothing_ran,
    read_runs,
    tested_model,
)

# Settings of Figure 6; FedBE's server holds a share of the images, so it has splits and experiments of its own.
CLEAN = ("5of10-train10", "5of10-train10-server")
Span = tuple[float, float, float]  # mean, lowest and highest over seeds


def _errors(cells: pd.DataFrame, sources: Sources, condition: str, state: str) -> pd.DataFrame:
    """Every metric of every client (and pooled, client -1) of the tested model in its state `best` or `last`."""
    model = tested_model(cells, sources.root)
    rows = read_runs(cells, sources.root, "evaluation.parquet")
    at = f"best-{model}" if state == "best" else state
    found: pd.DataFrame = rows[(rows["state"] == at) & (rows["model"] == model) & (rows["condition"] == condition)]
    return found


def _server(cells: pd.DataFrame) -> str:
    """What must be known of FedBE where it is shown."""
    shown = "FedBE" in set(cells["method"])
    return "FedBE's server holds 2 % of the images, which no client gets. " if shown else ""


def _new_clients(sources: Sources) -> pd.DataFrame:
    """The cells of Figure 4, whose settings end with their alpha."""
    return first_presets(pd.concat([sources.cells("new-clients"), sources.cells("new-clients-fedbe")]))


def figure4(sources: Sources) -> Drawn:
    """Mean and worst ECE of new clients against the alpha of their labels' law."""
    cells, unrun = _new_clients(sources), sources.unrun(_new_clients)
    if cells.empty:
        return nothing_ran("Figure 4")
    drawn = Figure(figsize=(9.2, 4.2), layout="constrained")
    panels = drawn.subplots(1, 2)
    for method, look in looks(cells["method"]).items():
        values = new_client_errors(cells[cells["method"] == method], sources)
        for panel, scope in zip(panels, ("mean", "worst"), strict=True):
            _draw_errors(panel, values[values["scope"] == scope], method, look)
    for panel, title in zip(panels, ("A-ECE: mean of clients", "W-ECE: worst client"), strict=True):
        alphas = sorted(set(map(alpha_of, cells["setting"])))
        panel.set_xticks([0.0, *alphas], ["0", *(f"{alpha:g}" for alpha in alphas)])
        panel.set(title=title, xlabel="alpha of the new clients; 0: training clients", ylabel="ECE (%)")
        panel.margins(x=0.06)
        from_zero(panel)
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=4, handlelength=3.0)
    head(drawn, cells, unrun)
    caption = (
        "Figure 4. ECE, 15 bins, of clients that were not in training, against the alpha of the Dirichlet law of "
        "their labels; the point 0 are the training clients, whose alpha is 0.1. All are tested after the last round, "
        f"as in the table of these numbers. {seeds_caption(cells)} Sizes and training shares of these are not "
        f"printed. {_server(cells)}"
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def alpha_of(setting: str) -> float:
    """The alpha that a setting of Figure 4 is named after."""
    return float(setting.rsplit("-", 1)[1])


def new_client_errors(cells: pd.DataFrame, sources: Sources) -> pd.DataFrame:
    """Columns alpha (0: clients that trained), scope (`mean`, `worst`), mean, low and high over seeds of the ECE."""
    parts = []
    for setting, own in cells.groupby("setting", sort=False):
        for alpha, condition in ((0.0, "clean"), (alpha_of(str(setting)), "new")):
            # Newcomers arrive when training has ended.
            rows = _errors(own, sources, condition, "last")
            ece = rows[(rows["metric"] == "ece15") & (rows["client"] >= 0)].groupby("seed")["value"]
            for scope, values in (("mean", ece.mean()), ("worst", ece.max())):
                parts.append(pd.DataFrame({"alpha": alpha, "scope": scope, "value": values.to_numpy()}))
    # Newcomers take no part in training, so the training clients of all settings are the same.
    found = pd.concat(parts).groupby(["alpha", "scope"])["value"]
    return found.agg(mean="mean", low="min", high="max").reset_index()


def _draw_errors(panel: Axes, values: pd.DataFrame, method: str, look: Look) -> None:
    panel.plot(values["alpha"], 100 * values["mean"], label=method, **look.style)
    panel.fill_between(values["alpha"], 100 * values["low"], 100 * values["high"], color=look.colour, alpha=0.18, lw=0)


def _clean_and_noisy(sources: Sources) -> list[pd.DataFrame]:
    """The cells of Figure 6, in two."""
    noisy = first_presets(pd.concat([sources.cells("noisy"), sources.cells("noisy-fedbe")]))
    # Beside printed numbers FedBE's split is a variant, so the cells are taken by their settings' names.
    table5 = sources.index[sources.index["experiment"].isin(["table5", "table5-fedbe"])]
    clean = first_presets(table5[table5["setting"].isin(CLEAN)])
    return [clean, noisy]


def figure6(sources: Sources) -> Drawn:
    """Accuracy and ECE with clean and with noisy clients, CIFAR-10 5/10, 10 %."""

    def chosen(sources: Sources) -> pd.DataFrame:
        return pd.concat(_clean_and_noisy(sources))

    clean, noisy = _clean_and_noisy(sources)
    cells, unrun = chosen(sources), sources.unrun(chosen)
    if noisy.empty or clean.empty:
        return nothing_ran("Figure 6")
    drawn = Figure(figsize=(6.6, 4.8), layout="constrained")
    panel = drawn.subplots()
    for method, look in looks(cells["method"]).items():
        both = [part[part["method"] == method] for part in (clean, noisy)]
        _draw_pair(panel, [accuracy_and_error(own, sources) if len(own) else None for own in both], method, look)
    panel.set(xlabel="test accuracy (%)", ylabel="ECE (%)")
    panel.margins(0.12)
    from_zero(panel)
    drawn.legend(*panel.get_legend_handles_labels(), loc="outside lower left", ncols=4)
    head(drawn, cells, unrun, "filled: clean, empty: noisy")
    caption = (
        "Figure 6. Test accuracy and ECE (15 bins), both pooled over clients, of CIFAR-10 5/10 with 10 % for "
        "training: filled with clean images, empty with a noise model of its own at each client, an arrow from one to "
        f"the other. {_server(cells)}Bars span the seeds. "
    )
    return Drawn(drawn, caption + closing(cells, unrun))


def _draw_pair(panel: Axes, pair: list[tuple[Span, Span] | None], method: str, look: Look) -> None:
    """A method with clean clients (filled) and with noisy ones (empty), and an arrow between them."""
    label: str | None = method
    for spans, filling in zip(pair, ("full", "empty"), strict=True):
        if spans is None:
            continue
        accuracy, error = spans
        panel.errorbar(
            accuracy[0],
            error[0],
            yerr=_reach(error),
            xerr=_reach(accuracy),
            linestyle="none",
            elinewidth=0.8,
            label=label,
            **look._replace(filling=filling).style,
        )
        label = None
    clean, noisy = pair
    if clean and noisy:
        begin, end = ((accuracy[0], error[0]) for accuracy, error in (clean, noisy))
        arrow = {
            "arrowstyle": "->",
            "color": look.colour,
            "shrinkA": 6,
            "shrinkB": 6,
            "linewidth": 0.8,
            "linestyle": "--",
        }
        panel.annotate("", end, begin, arrowprops=arrow)


def _reach(span: Span) -> list[list[float]]:
    mean, low, high = span
    # Rounding may put the mean of equal values beside them.
    return [[max(mean - low, 0.0)], [max(high - mean, 0.0)]]


def accuracy_and_error(cells: pd.DataFrame, sources: Sources) -> tuple[Span, Span]:
    """Pooled accuracy and ECE in percent: each its mean, lowest and highest over seeds."""
    rows = _errors(cells, sources, "clean", "best")
    pooled = rows[rows["client"] == -1]
    accuracy, error = (100 * pooled.loc[pooled["metric"] == metric, "value"] for metric in ("accuracy", "ece15"))
    return (accuracy.mean(), accuracy.min(), accuracy.max()), (error.mean(), error.min(), error.max())
