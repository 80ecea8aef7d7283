"""The start page of a scale, which stands alone: verdicts, tables, figures, splits, cost, and what did not run.

Styles and images are inside the file, nothing is requested from elsewhere, and the same results give the same bytes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from fedbayes.analysis import display
from fedbayes.analysis.compare import printed_only, read_reproduction
from fedbayes.analysis.coverage import core_hours, cost, unrun
from fedbayes.analysis.drawing import caption_of
from fedbayes.analysis.pages import render
from fedbayes.analysis.published import KEY
from fedbayes.analysis.summarize import read_index
from fedbayes.analysis.tables import make_table
from fedbayes.analysis.verdict import RULE
from fedbayes.io import read_json, write_text

PROVES = {
    "smoke": "Scale smoke shows that the machine works and proves nothing about a paper: a few rounds, one seed, small "
    "embedded data.",
    "reduced": "Scale reduced runs the real data with fewer rounds or clients than the paper: differences are shown, "
    "verdicts are not.",
    "paper": "Scale paper runs exactly the paper's rounds, clients and sizes: differences get a verdict by a "
    "written rule.",
}
VERDICTS = ("reproduced", "inconclusive", "better", "worse")
PACKAGES = ("fedbayes", "pandas", "scipy", "matplotlib")


@dataclass(frozen=True)
class Chapter:
    """One paper of the report and the files it is made from.

    Attributes:
        key: the paper as `config/papers/` names it.
        header: its `name`, `title`, `citation` and `url`.
        reproduction: what `compare` wrote.
        index: the paper's cells.
        tables: file names of its tables, `table1` for Table 1, and of those that it does not print.
        figures: its figures as SVG files.
        splits: pictures of its client splits as SVG files.
        left_out: what `Plan.left_out` says of it.
        planned: its cells at scale paper, as rows of the index: what else of its tables could run.
    """

    key: str
    header: Mapping[str, str]
    reproduction: Path
    index: Path
    tables: Sequence[str]
    figures: Sequence[Path]
    splits: Sequence[Path]
    left_out: Sequence[Mapping[str, Any]]
    planned: Sequence[Mapping[str, Any]] | None = None

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The reproduction."""
        return read_reproduction(self.reproduction)


def chapters_of(
    headers: Mapping[str, Mapping[str, str]],
    left_out: Mapping[str, Sequence[Mapping[str, Any]]],
    reproductions: Sequence[Path],
    indices: Sequence[Path],
    tables: Sequence[Path],
    figures: Sequence[Path],
    splits: Sequence[Path],
    planned: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> list[Chapter]:
    """A chapter for each paper of `headers`; its files are told by their name or their folder's name."""
    reproduction, index = ({file.stem: file for file in files} for files in (reproductions, indices))
    return [
        Chapter(
            key,
            header,
            reproduction[key],
            index[key],
            [file.stem for file in tables if file.parent.name == key],
            [file for file in figures if file.parent.name == key],
            [file for file in splits if file.parent.name == key],
            left_out[key],
            planned[key] if planned else None,
        )
        for key, header in headers.items()
    ]


def report(scale: str, chapters: Sequence[Chapter], root: Path, commit: str, html: Path) -> None:
    """Write the page.

    Args:
        scale: smoke, reduced or paper.
        chapters: the papers, in the order to show them.
        root: the folder that the indices' `folder` column starts from.
        commit: the commit of the source tree the page is made with.
        html: the file to write.
    """
    shown = [_shown(chapter, root) for chapter in chapters]
    trained = sorted({item for chapter in shown for item in chapter["versions"]})
    page = render(
        "report.html",
        scale=scale,
        proves=PROVES[scale],
        rule=RULE,
        verdicts=VERDICTS,
        chapters=shown,
        commit=commit,
        trained=trained,
        made=[f"{name} {version(name)}" for name in PACKAGES],
    )
    write_text(html, page)


def _shown(chapter: Chapter, root: Path) -> dict[str, Any]:
    """What the template needs of one paper."""
    records = run_records(chapter.index, root)
    missing = unrun(chapter.rows, chapter.left_out)
    tables = [make_table(chapter.rows, key, chapter.planned) for key in chapter.tables]
    cells = sum(len(of_run) for of_run, _ in records)
    return {
        "key": chapter.key,
        **chapter.header,
        "counts": counts(chapter.rows),
        "cells": cells,
        "planned": cells + sum(part.cells for part in missing),
        "hours": display.hours(sum(core_hours(record) for _, record in records)),
        "tables": [table for table in tables if not table.own],
        "own": [table for table in tables if table.own],
        "figures": [_figure(file) for file in chapter.figures],
        "splits": [_figure(file) for file in chapter.splits],
        "cost": cost(records),
        "unrun": missing,
        "runs": [_run(of_run, record) for of_run, record in records],
        "versions": [f"{name} {number}" for _, record in records for name, number in record["versions"].items()],
    }


def counts(rows: pd.DataFrame) -> dict[str, int]:
    """Printed numbers, how many of them ran, and how many comparisons got which verdict."""
    rows = printed_only(rows)
    ran = rows[rows["status"] == "run"]
    printed, reached = (len(part.drop_duplicates(KEY)) for part in (rows, ran))
    verdicts = {name: int((ran["verdict"] == name).sum()) for name in VERDICTS}
    return {
        "printed": printed,
        "run": reached,
        "not run": printed - reached,
        **verdicts,
        "no verdict": int((ran["verdict"] == "").sum()),
    }


def run_records(index_csv: Path, root: Path) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """Every run of a paper once: the cells it fills, and its `run.json`."""
    index = read_index(index_csv)
    return [
        (cells, read_json(root / str(folder) / "run.json")) for folder, cells in index.groupby("folder", sort=False)
    ]


def _run(cells: pd.DataFrame, record: dict[str, Any]) -> dict[str, str]:
    cell = cells.iloc[0]
    return {
        "Run": record["run"],
        "Method": cell["method"],
        "Setting": ", ".join(dict.fromkeys(cells["setting"])),
        "Preset": ", ".join(dict.fromkeys(cells["preset"])),
        "Seed": str(cell["seed"]),
        "Scale": cell["scale"],
        "Ran on": display.dataset(cell["dataset_title"], cell["stand_in_for"]),
        "Rounds": str(cell["rounds"]),
        "Outcome": record["outcome"],
        "Seconds": f"{record['seconds']:.1f}",
        "Hardware": display.hardware(record),
        "Split (sha256)": record["split"]["sha256"][:12],
        "Commit": record["commit"],
    }


def _figure(svg: Path) -> dict[str, str]:
    data = base64.b64encode(svg.read_bytes()).decode("ascii")
    heading = re.sub(r"^figure", "Figure ", svg.stem)
    source = f"data:image/svg+xml;base64,{data}"
    return {"key": svg.stem, "heading": heading, "source": source, "caption": caption_of(svg)}
