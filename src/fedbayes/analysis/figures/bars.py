"""Bars side by side: groups along the axis, a bar for each series in every group, told apart by hatching as well."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

FILLS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo")
SPANS = (("mean", "low"), ("high", "mean"))
GROUP_WIDTH = 0.84  # of the room between two groups


def draw_bars(panel: Axes, values: pd.DataFrame, digits: int = 1) -> None:
    """Bars of the mean, a line from the lowest to the highest value, and the mean written above.

    Args:
        panel: where to draw.
        values: columns group, series, mean, low, high, in the order in which they are to stand; a series that lacks a
            group is marked there as not run.
        digits: of the numbers above the bars, behind the point.
    """
    groups, names = list(dict.fromkeys(values["group"])), list(dict.fromkeys(values["series"]))
    width = GROUP_WIDTH / len(names)
    for at, name in enumerate(names):
        own = values[values["series"] == name].set_index("group").reindex(groups)
        place = np.arange(len(groups)) + (at - (len(names) - 1) / 2) * width
        # Rounding may put the mean of equal values beside them.
        spread = [(own[above] - own[below]).fillna(0.0).clip(lower=0.0) for above, below in SPANS]
        panel.bar(
            place,
            own["mean"].fillna(0.0),
            width,
            yerr=spread if np.any(spread) else None,
            color=FILLS[at % len(FILLS)],
            hatch=HATCHES[at % len(HATCHES)],
            edgecolor="black",
            linewidth=0.6,
            capsize=2,
            label=name,
        )
        for x, mean, high in zip(place, own["mean"], own["high"], strict=True):
            text = "not run" if np.isnan(mean) else f"{mean:.{digits}f}"
            top = 0.0 if np.isnan(mean) else float(high)
            panel.annotate(
                text,
                (x, top),
                (0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=7,
                rotation=90 if np.isnan(mean) else 0,
            )
    panel.set_xticks(range(len(groups)), groups)
    panel.grid(visible=False, axis="x")
    panel.margins(y=0.12)
