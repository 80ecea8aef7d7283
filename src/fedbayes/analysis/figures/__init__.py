"""The figures of the papers as SVG and PNG, drawn from files of their runs.

A paper's figures are in the module of its name, whose `FIGURES` maps a figure's name to the function that draws it; a
paper's file asks for a figure by naming it under `shows`. The same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedbayes.analysis.drawing import Drawn, write_picture
from fedbayes.analysis.figures import bpfed, feduab, lrbpfl, pfedbayes, selffl
from fedbayes.analysis.figures.sources import Sources, read_logged, with_outcomes
from fedbayes.analysis.summarize import read_index
from fedbayes.reading import choice, complain

MODULES = {"bpfed": bpfed, "feduab": feduab, "lrbpfl": lrbpfl, "pfedbayes": pfedbayes, "selffl": selffl}
FIGURES: dict[str, Callable[[Sources], Drawn]] = {
    f"{paper}/{name}": draw for paper, module in MODULES.items() for name, draw in module.FIGURES.items()
}


def figure(
    key: str,
    index_csv: Path,
    root: Path,
    titles: Mapping[str, str],
    logged_csv: Path,
    svg: Path,
    png: Path,
    class_names: Mapping[str, Sequence[str]] | None = None,
    planned: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write one figure of a paper as SVG and PNG, with its caption in both.

    Args:
        key: `<paper>/<figure>`, as in `FIGURES`.
        index_csv: the paper's cells.
        root: the folder that the index's `folder` column starts from.
        titles: titles of the paper's settings, in the paper's order.
        logged_csv: curves that public logs hold (`config/curves.csv`), drawn behind ours.
        svg: the vector image to write.
        png: the pixel image to write.
        class_names: what the classes of datasets are called, by dataset.
        planned: the paper's cells at scale paper, as rows of the index: what of them did not run is said.
    """
    if key not in FIGURES:
        raise complain("src/fedbayes/analysis/figures", "FIGURES", "no such figure: " + choice(key, FIGURES))
    whole = None if planned is None else pd.DataFrame(list(planned))
    index = with_outcomes(read_index(index_csv), root)
    sources = Sources(index, titles, root, read_logged(logged_csv, key), class_names or {}, whole)
    write_picture(lambda: FIGURES[key](sources), svg, png)
