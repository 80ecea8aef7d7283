"""Uncertainty of single images and of whole test sets: examples by a written rule above, distributions beneath.

Examples show what the numbers look like and prove nothing; distributions and AUROC are of every sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fedbayes.analysis.drawing import SOFT
from fedbayes.analysis.figures.sources import Sources

ALEATORIC, EPISTEMIC = "aleatoric-trace", "epistemic-trace"
# Scores of doubt in the order of the panels: name in the metrics, label of the axis.
SCORES = {
    ALEATORIC: "aleatoric uncertainty (trace)",
    EPISTEMIC: "epistemic uncertainty (trace)",
    "confidence": "1 − highest probability",
}
QUANTILES = np.linspace(0, 1, 201)

# One of some samples; None where there is none.
Choice = Callable[[pd.DataFrame], "pd.Series | None"]


@dataclass(frozen=True)
class Example:
    """An image to show: why, the sample's row of `predictions.parquet` (None: there is none), and of what dataset."""

    rule: str
    row: pd.Series | None
    dataset: str


@dataclass(frozen=True)
class Group:
    """Samples whose distribution is drawn, and how."""

    name: str
    rows: pd.DataFrame
    colour: str
    style: str | tuple[int, tuple[int, ...]]


def doubt(rows: pd.DataFrame, score: str) -> pd.Series:
    """A score that grows with doubt."""
    return 1 - rows["confidence"] if score == "confidence" else rows[score]


def is_right(rows: pd.DataFrame) -> pd.Series:
    """Whether the predicted class is the label."""
    return rows["label"] == rows["predicted"]


def least(rows: pd.DataFrame) -> pd.Series | None:
    """The sample of least uncertainty, both parts together; the first one of several."""
    return None if rows.empty else rows.iloc[int((rows[ALEATORIC] + rows[EPISTEMIC]).to_numpy().argmin())]


def most(rows: pd.DataFrame, *parts: str) -> pd.Series | None:
    """The sample of most uncertainty in some parts together; the first one of several."""
    return None if rows.empty else rows.iloc[int(rows[list(parts)].sum(axis=1).to_numpy().argmax())]


def middle(rows: pd.DataFrame, part: str) -> pd.Series | None:
    """The sample in the middle of all when they are ordered by a part of their uncertainty."""
    return None if rows.empty else rows.sort_values(part, kind="stable").iloc[(len(rows) - 1) // 2]


def one_after_another(rows: pd.DataFrame, dataset: str, rules: Mapping[str, Choice]) -> list[Example]:
    """An example for each rule, none twice: a rule chooses among the samples that those before it have left."""
    found = []
    for rule, choose in rules.items():
        row = choose(rows)
        found.append(Example(rule, row, dataset))
        if row is not None:
            rows = rows.drop(index=row.name)
    return found


def draw(
    sources: Sources, heading: str, examples: Sequence[Example], known: str, groups: Sequence[Group], notes: list[str]
) -> Figure:
    """The whole figure.

    Args:
        sources: where pixels and class names are found.
        heading: what ran.
        examples: the images of the upper row.
        known: the dataset whose classes the model knows.
        groups: the lines of the lower row.
        notes: what to write above each panel of the lower row.
    """
    drawn = Figure(figsize=(10.0, 7.0), layout="constrained")
    upper, lower = np.asarray(drawn.subfigures(2, 1, height_ratios=[1.15, 1]))
    _draw_examples(upper, sources, examples, known)
    panels = lower.subplots(1, len(SCORES), sharey=True)
    for panel, (score, label), note in zip(panels, SCORES.items(), notes, strict=True):
        _draw_distributions(panel, groups, score)
        panel.set_xlabel(label)
        panel.set_title(note, fontsize=8)
    panels[0].set_ylabel("share of samples with at most that")
    lower.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=len(groups), handlelength=3.5)
    upper.suptitle(heading, fontsize=9, color=SOFT, x=0.01, ha="left")
    return drawn


def _draw_examples(part: SubFigure, sources: Sources, examples: Sequence[Example], known: str) -> None:
    for panel, example in zip(part.subplots(1, len(examples)), examples, strict=True):
        panel.set_title(example.rule, fontsize=9, loc="center")
        panel.set(xticks=[], yticks=[])
        panel.grid(visible=False)
        if example.row is None:
            panel.text(0.5, 0.5, "there is none", ha="center", va="center", color=SOFT, transform=panel.transAxes)
            panel.set_aspect("equal")
            continue
        row = example.row
        # Nearest: every pixel as it is. Stored images are small, so vector files do not grow.
        panel.imshow(sources.picture(example.dataset, int(row["sample"])), interpolation="nearest", cmap="gray")
        panel.set_xlabel(_words(sources, example, row, known), fontsize=8, linespacing=1.4)


def _words(sources: Sources, example: Example, row: pd.Series, known: str) -> str:
    """What the image is, what it was taken for, and its uncertainty: trace, in brackets the predicted class's entry."""
    label, taken = (
        sources.class_name(name, int(row[column]))
        for name, column in ((example.dataset, "label"), (known, "predicted"))
    )
    parts = [
        f"{part} {row[f'{part}-trace']:.4f} ({row[f'{part}-predicted']:.4f})" for part in ("aleatoric", "epistemic")
    ]
    return "\n".join([f"{label}: taken for {taken}, {100 * row['confidence']:.0f} %", *parts])


def _draw_distributions(panel: Axes, groups: Sequence[Group], score: str) -> None:
    """Distribution functions; 201 quantiles stand for all samples."""
    for group in groups:
        if len(group.rows):
            values = np.quantile(doubt(group.rows, score).to_numpy(np.float64), QUANTILES)
            label = f"{group.name} ({len(group.rows):,})"
            panel.plot(values, QUANTILES, color=group.colour, linestyle=group.style, label=label)
    panel.set(ylim=(0, 1.02))
    panel.set_xlim(left=0)


def auroc_in_words(evaluations: pd.DataFrame, condition: str, metric: str) -> str:
    """`0.71`, `0.71 ± 0.02` over seeds, or nothing where it was not measured; of the global model's best state."""
    best = "best-gm" if "best-gm" in set(evaluations["state"]) else "last"
    rows = evaluations[(evaluations["state"] == best) & (evaluations["model"] == "gm")]
    values = rows.loc[(rows["condition"] == condition) & (rows["metric"] == metric), "value"]
    if values.empty:
        return ""
    spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"
