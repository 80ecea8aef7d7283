"""Frozen rows whose runs today's plan does not have are counted when more is frozen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from artefacts import ROOT, make_plan
from campaign import Campaign
from fedbayes.analysis.freeze import END, START, freeze_scale
from fedbayes.analysis.unplanned import unplanned, warning


def rows(*found: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(found, columns=["paper", "scale", "runs"]).assign(seed_list="0 1 2")


def test_rows_are_looked_up_in_the_plan_of_their_own_scale() -> None:
    full, reduced = (list(make_plan(scale=scale).runs) for scale in ("paper", "reduced"))
    other = next(run for run in full if run not in reduced)
    frozen = rows(
        ("pfedbayes", "paper", " ".join(full[:3])),
        ("pfedbayes", "reduced", reduced[0]),
        ("pfedbayes", "reduced", other),
        ("pfedbayes", "paper", f"{full[0]} 0123456789ab"),
        ("withdrawn", "paper", full[0]),
    )
    assert list(unplanned(frozen, ROOT).index) == [2, 3, 4]
    words = warning(frozen, Path("a.csv"), ROOT)
    assert words.startswith("fedbayes: warning: 3 rows of a.csv (2 at scale paper, 1 at scale reduced) belong to runs")
    assert warning(frozen.iloc[:2], Path("a.csv"), ROOT) == ""


def test_seeds_that_the_scale_does_not_have_are_the_user_s_own() -> None:
    more = list(make_plan(scale="reduced", seeds=[7]).runs)
    frozen = rows(("pfedbayes", "reduced", more[0]))
    assert len(unplanned(frozen, ROOT)) == 1 and unplanned(frozen.assign(seed_list="7"), ROOT).empty


def test_freezing_warns_once_for_a_paper(full: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("results", "config"):
        shutil.copytree((full.root if part == "results" else ROOT) / part, tmp_path / part)
    (tmp_path / "README.md").write_text(f"{START}\n{END}\n")
    freeze_scale("paper", tmp_path)
    assert capsys.readouterr().err == ""
    frozen = tmp_path / "docs/reproduction/pfedbayes.csv"
    text = pd.read_csv(frozen, dtype=str, keep_default_na=False)
    pd.concat([text, text.iloc[[0]].assign(setting="gone", runs="0123456789ab")]).to_csv(frozen, index=False)
    freeze_scale("paper", tmp_path)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "1 row of" in said[0] and "(1 at scale paper)" in said[0]
