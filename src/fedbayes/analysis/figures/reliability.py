"""Reliability diagrams: how often a model is right when it says how sure it is (Guo et al. 2017).

A bar for each bin of confidence shows the accuracy in it, a hatched one the gap to the confidence; beneath, how many
samples fall into each bin. Seeds are pooled: every sample of every seed counts once.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

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


def draw_reliability(panel: Axes, binned: pd.DataFrame) -> None:
    """Accuracy by confidence beside the diagonal, with ECE and MCE in the corner."""
    number = len(binned)
    middle = (np.arange(number) + 0.5) / number
    accuracy, sure = binned["accuracy"].fillna(0.0), binned["confidence"].fillna(0.0)
    panel.bar(middle, accuracy, 1 / number, color=RIGHT, edgecolor="black", linewidth=0.5, label="accuracy")
    low, height = np.minimum(accuracy, sure), (accuracy - sure).abs()
    panel.bar(middle, height, 1 / number, low, fill=False, edgecolor=GAP, hatch="///", linewidth=0.8, label="gap")
    panel.plot([0, 1], [0, 1], color="black", linestyle=(0, (4, 2)), linewidth=1)
    ece, mce = gaps(binned)
    panel.text(0.03, 0.97, f"ECE {100 * ece:.1f} %\nMCE {100 * mce:.1f} %", va="top", transform=panel.transAxes)
    panel.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")


def draw_histogram(panel: Axes, binned: pd.DataFrame) -> None:
    """Share of the samples in each bin of confidence."""
    number = len(binned)
    share = 100 * binned["samples"] / binned["samples"].sum()
    panel.bar((np.arange(number) + 0.5) / number, share, 1 / number, color="#9a9a9a", edgecolor="black", linewidth=0.5)
    panel.set(xlim=(0, 1), xlabel="confidence", ylabel="samples (%)")
