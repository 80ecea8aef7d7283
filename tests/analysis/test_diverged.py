"""A run that diverged is a result: every table shows its number, and says that it diverged."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from campaign import Campaign
from fedbayes.analysis.compare import read_reproduction
from fedbayes.analysis.freeze import freeze, paper_table
from fedbayes.analysis.report import run_records
from fedbayes.analysis.tables import make_table, table
from fedbayes.analysis.terminal import terminal_table

TEXT = "2 of 3 seeds diverged (rounds 12, 40)"


def test_the_reproduction_carries_it(diverged: Campaign) -> None:
    ran = read_reproduction(diverged.reproduction).query("status == 'run'").set_index("variant")
    assert ran["diverged"].to_dict() == {"": TEXT, "stratified split": ""}
    assert ran.loc["", "ours"] == pytest.approx(diverged.best + 0.01)


def test_the_matrix_marks_and_explains_it(diverged: Campaign) -> None:
    found = make_table(read_reproduction(diverged.reproduction), "table1").matrix
    texts = {line.source: line.entries[0].text for line in found.lines if line.method == "FedAvg"}
    assert texts["ours, paper"] == texts["ours, paper, stratified split"] + " ‡"
    assert found.divergences == [f"FedAvg (paper) on MNIST small: {TEXT}"]


def test_every_format_shows_it(diverged: Campaign, tmp_path: Path) -> None:
    html, tex, csv = (tmp_path / f"table1.{kind}" for kind in ("html", "tex", "csv"))
    table(diverged.reproduction, "table1", html, tex, csv)
    page = html.read_text(encoding="utf-8")
    assert page.count(TEXT) == 2  # below the matrix and in the list of what ran
    assert page.count("1.00 ‡") == 2
    assert rf"\ddagger$ FedAvg (paper) on MNIST small: {TEXT}" in tex.read_text(encoding="utf-8")
    assert list(pd.read_csv(csv).query("status == 'run'")["diverged"].fillna("")) == [TEXT, ""]


def test_short_tables_say_diverged(diverged: Campaign, tmp_path: Path) -> None:
    blocks = terminal_table([diverged.reproduction]).split("FedAvg")[1:3]
    assert ["diverged" in block for block in blocks] == [True, False]
    freeze(diverged.reproduction, diverged.root, tmp_path / "frozen.csv")
    rows = paper_table(tmp_path / "frozen.csv").splitlines()[2:]
    assert [row.endswith("; diverged |") for row in rows] == [True, False]


def test_a_verdict_stays_beside_it(full: Campaign, tmp_path: Path) -> None:
    rows = read_reproduction(full.reproduction)
    rows.loc[rows["status"] == "run", "diverged"] = "1 of 3 seeds diverged (round 5)"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    assert "better," in terminal_table([tmp_path / "rows.csv"])
    freeze(tmp_path / "rows.csv", full.root, tmp_path / "frozen.csv")
    assert "| better; diverged |" in paper_table(tmp_path / "frozen.csv")


def test_a_missing_value_of_a_diverged_run_is_said_in_words(diverged: Campaign) -> None:
    rows = read_reproduction(diverged.reproduction)
    rows.loc[rows["diverged"] != "", ["ours", "std"]] = float("nan")
    made = make_table(rows, "table1")
    assert made.ran[0]["Ours"] == "no value ‡"


def test_the_records_of_the_report_say_the_outcome(diverged: Campaign) -> None:
    outcomes = [record["outcome"] for _, record in run_records(diverged.index, diverged.root)]
    assert sorted(outcomes) == ["diverged"] * 2 + ["finished"] * 4
