"""Figures of pFedBayes."""

from __future__ import annotations

from fedbayes.analysis.drawing import Drawn
from fedbayes.analysis.figures.lines import accuracy_by_round, accuracy_caption
from fedbayes.analysis.figures.sources import Sources, nothing_ran


def figure2(sources: Sources) -> Drawn:
    """Accuracy by round on MNIST, the main settings of Table 1."""
    cells = sources.cells("table1")
    cells = cells[cells["published_dataset"] == "MNIST"]
    if cells.empty:
        return nothing_ran("Figure 2")
    caption = "Figure 2. " + accuracy_caption(cells, sources.logged)
    return Drawn(accuracy_by_round(cells, sources.titles, sources.root, sources.logged), caption)


FIGURES = {"figure2": figure2}
