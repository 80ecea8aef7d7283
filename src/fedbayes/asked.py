"""What a command line asks for: where its targets are tables alone, only the runs of these tables are needed.

Runs that have finished before stay in the paper's index all the same, so that a table never takes numbers from others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedbayes.plan import Cell, Plan, slug
from fedbayes.reading import choice, complain

TABLE_FILE = re.compile(r"results/(?P<scale>\w+)/tables/(?P<paper>[^/]+)/(?P<table>[^/]+)\.(?:html|tex|csv)")
# File names of tables, by paper.
Tables = Mapping[str, frozenset[str]]


def tables_asked(targets: Iterable[str], scale: str) -> Tables:
    """The tables that the targets are; none at all unless every target is a table of this scale."""
    asked: dict[str, frozenset[str]] = {}
    for target in targets:
        match = TABLE_FILE.fullmatch(target.removeprefix("./"))
        if match is None or match["scale"] != scale:
            return {}
        asked[match["paper"]] = asked.get(match["paper"], frozenset()) | {match["table"]}
    return asked


def check_asked(plan: Plan, tables: Tables) -> None:
    """Stop at a table that its paper does not have: nothing would run for it. Snakemake knows the names of papers."""
    for paper in tables.keys() & plan.papers.keys():
        there = plan.shown(paper, "Table")
        for name in sorted(tables[paper] - set(there)):
            raise complain(f"results/{plan.config.scale}/tables/{paper}", "", "unknown table: " + choice(name, there))


def cells_asked(plan: Plan, paper: str, tables: Tables, folder: Path) -> list[Cell]:
    """Cells of a paper that are asked for: those of its tables and those that ran before; all where no table is.

    Args:
        plan: the plan.
        paper: the paper.
        tables: what `tables_asked` found.
        folder: the working directory, which holds `results/`.
    """
    cells = plan.cells_of(paper)
    if paper not in tables:
        return cells
    return [
        cell
        for cell in cells
        if slug(cell.published_table or cell.own_table) in tables[paper]
        or (folder / cell.run.folder / "evaluation.parquet").exists()
    ]


def folders_asked(plan: Plan, paper: str, tables: Tables, folder: Path) -> list[str]:
    """Folders of the runs that fill these cells, and of those that relative metrics compare with, each once."""
    cells = cells_asked(plan, paper, tables, folder)
    own = dict.fromkeys(cell.run.folder for cell in cells)
    return list(own | dict.fromkeys(cell.baseline for cell in cells if cell.baseline))
