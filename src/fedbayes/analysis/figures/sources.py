"""What a figure is drawn from, and what every caption says of it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedbayes.analysis.display import count, dataset
from fedbayes.analysis.drawing import SOFT, Drawn
from fedbayes.analysis.figures.unrun import not_run
from fedbayes.io import read_json

LETTERS_AN_INCH = 15  # of the line above a figure


@dataclass(frozen=True)
class Sources:
    """Where a figure finds its numbers.

    Attributes:
        index: the paper's cells, one row a cell and seed.
        titles: titles of the paper's settings, in the paper's order.
        root: the folder that the index's `folder` column starts from.
        logged: curves of public logs that belong to the figure.
        class_names: what the classes of a dataset are called, by dataset, where that is known.
        planned: the paper's cells at scale paper, as `index` has those of this scale; None if nobody asks for them.
    """

    index: pd.DataFrame
    titles: Mapping[str, str]
    root: Path
    logged: pd.DataFrame
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    planned: pd.DataFrame | None = None

    def cells(self, experiment: str) -> pd.DataFrame:
        """The cells of one experiment, its main settings only."""
        return self.index[(self.index["experiment"] == experiment) & (self.index["variant"] == "")]

    def unrun(self, chosen: Callable[[Sources], pd.DataFrame]) -> str:
        """The sentence on what a figure does not show because it did not run; empty if there is nothing.

        Args:
            chosen: the figure's choice among all cells, made among those of this scale and among those of scale paper.
        """
        if self.planned is None:
            return ""
        return not_run(chosen(self), chosen(replace(self, index=self.planned)), self.titles)

    def class_name(self, dataset: str, label: int) -> str:
        """A class as people call it, or its number."""
        names = self.class_names.get(dataset)
        return names[label] if names else f"class {label}"

    def picture(self, dataset: str, sample: int) -> NDArray[np.uint8]:
        """An image of a fetched dataset, ready to be shown: (height, width, channel), or (height, width) if grey."""
        inputs = np.load(self.root / "resources" / dataset / "inputs.npy", mmap_mode="r", allow_pickle=False)
        return np.moveaxis(np.asarray(inputs[sample]), 0, -1).squeeze()


def read_logged(file: Path, key: str) -> pd.DataFrame:
    """Curves of public logs that belong to one figure: columns setting, method, model, round, accuracy, source."""
    paper, name = key.split("/")
    rows = pd.read_csv(file)
    return rows[(rows["paper"] == paper) & (rows["figure"] == name)]


def read_runs(cells: pd.DataFrame, root: Path, name: str) -> pd.DataFrame:
    """One table of all runs of some cells, such as `rounds.parquet`; column `seed` says whose a row is."""
    tables = [
        pd.read_parquet(root / folder / name).assign(seed=seed)
        for folder, seed in zip(cells["folder"], cells["seed"], strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def first_presets(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of each method's first preset: the paper's own reading, for figures that show a method once."""
    first = cells.drop_duplicates(["experiment", "method"]).set_index(["experiment", "method"])["preset"]
    own = [first[key] for key in zip(cells["experiment"], cells["method"], strict=True)]
    return cells[cells["preset"] == own] if len(cells) else cells


def one_line_each(cells: pd.DataFrame, own: str) -> pd.DataFrame:
    """The cells of a figure of many methods: each by its first preset, the paper's own by all of its readings."""
    return cells[(cells["method"] == own) | cells.index.isin(first_presets(cells).index)]


def tested_model(cells: pd.DataFrame, root: Path) -> str:
    """The model that runs were followed by: the personal one, or the global one where no other was tested."""
    return "pm" if "pm" in set(read_runs(cells, root, "rounds.parquet")["model"]) else "gm"


def nothing_ran(name: str) -> Drawn:
    """An empty frame that says so: a figure is never silently absent."""
    text = f"{name}: not run at this scale."
    drawn = Figure(figsize=(7.0, 1.2))
    drawn.text(0.5, 0.5, text, ha="center", va="center", color=SOFT)
    return Drawn(drawn, text)


def head(drawn: Figure, cells: pd.DataFrame, unrun: str = "", *notes: str) -> None:
    """The lines above every figure: scale, dataset that really ran, seeds; what did not run; further notes."""
    drawn.suptitle(
        heading(what_ran(cells), drawn.get_figwidth(), unrun, *notes), fontsize=9, color=SOFT, x=0.01, ha="left"
    )


def heading(first: str, inches: float, *notes: str) -> str:
    """Notes, each on a line of its own or on several that fit into the width of a figure."""
    return "\n".join(textwrap.fill(note, int(inches * LETTERS_AN_INCH)) for note in (first, *notes) if note)


def say_not_run(panel: Axes, height: float = 0.5) -> None:
    """A panel whose cells did not run says so instead of being blank, at a share of its height."""
    panel.text(0.5, height, "not run at this scale", ha="center", va="center", color=SOFT, transform=panel.transAxes)
    panel.set(xticks=[], yticks=[], xlabel="", ylabel="")
    panel.spines[:].set_visible(False)


def what_ran(cells: pd.DataFrame) -> str:
    """`Scale smoke, ran on MNIST-5k (stands in for MNIST), 1 seed`; `1 to 3 seeds` where curves differ in that."""
    pairs = dict.fromkeys(zip(cells["dataset_title"], cells["stand_in_for"], strict=True))
    data = ", ".join(dataset(name, real) for name, real in pairs)
    seeds = cells.groupby(["setting", "method", "preset"])["seed"].nunique()
    fewest = "" if seeds.min() == seeds.max() else f"{seeds.min()} to "
    return f"Scale {cells['scale'].iloc[0]}, ran on {data}, {fewest}{count(int(seeds.max()), 'seed')}"


def closing(cells: pd.DataFrame, unrun: str = "") -> str:
    """The end of every caption: what did not run, scale, dataset that really ran, seeds, what diverged, reductions."""
    changes = [change for reduction in cells["reduction"] for change in reduction.split("; ") if change]
    reductions = "; ".join(dict.fromkeys(changes))
    reduced = f"Reduced: {reductions}." if reductions else ""
    return " ".join(filter(None, [unrun, f"{what_ran(cells)}.", diverged(cells), reduced]))


def with_outcomes(index: pd.DataFrame, root: Path) -> pd.DataFrame:
    """The cells with a column `diverged`, from the records of their runs."""
    outcomes = {folder: read_json(root / folder / "run.json")["outcome"] for folder in set(index["folder"])}
    return index.assign(diverged=index["folder"].map(outcomes) == "diverged")


def diverged(cells: pd.DataFrame) -> str:
    """`Diverged: 1 of 3 seeds of BNFed (paper) on MNIST small.`; empty if none did or nobody looked."""
    if not cells.get("diverged", pd.Series(dtype=bool)).any():
        return ""
    groups = cells.groupby(["setting_title", "method", "preset"], sort=False)["diverged"]
    found = [
        f"{own.sum()} of {count(len(own), 'seed')} of {method} ({preset}) on {title}"
        for (title, method, preset), own in groups
        if own.any()
    ]
    return f"Diverged: {'; '.join(found)}."
