"""A table of which the scale runs nothing is made all the same, and says so."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from artefacts import ROOT
from fedbayes.analysis.compare import compare
from fedbayes.analysis.summarize import COLUMNS, read_index, summarize
from fedbayes.analysis.tables import table
from fedbayes.plan import Cell


@pytest.mark.parametrize(
    ("paper", "name", "key"), [("lrbpfl", "LR-BPFL", "table3"), ("pfedbayes", "pFedBayes", "table2")]
)
def test_a_table_without_any_run_is_whole(paper: str, name: str, key: str, tmp_path: Path) -> None:
    index, summary, rows = (tmp_path / file for file in ("index.csv", "summary.parquet", "rows.csv"))
    with index.open("w", newline="") as file:
        csv.DictWriter(file, Cell.columns()).writeheader()
    assert read_index(index).empty
    summarize(index, tmp_path, summary)
    compare(summary, ROOT / "config/published.csv", name, paper, "smoke", rows)
    html, tex, long = (tmp_path / f"{key}.{kind}" for kind in ("html", "tex", "csv"))
    table(rows, key, html, tex, long)
    page = html.read_text(encoding="utf-8")
    assert f"{name}, scale smoke" in page and "not run" in page
    assert "Nothing of this table ran at this scale." in page and COLUMNS[0] == "paper"
