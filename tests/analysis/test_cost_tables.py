"""Tables of costs: metrics as columns, and the paper's machine over no number of ours."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedbayes.analysis.compare import read_reproduction
from fedbayes.analysis.listing import Listing
from fedbayes.analysis.tables import make_table, table
from made_up import compared, full_plan


@pytest.fixture(scope="module")
def lrbpfl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compared("lrbpfl", full_plan("lrbpfl"), tmp_path_factory.mktemp("lrbpfl"))


@pytest.fixture(scope="module")
def rows(lrbpfl: Path) -> pd.DataFrame:
    return read_reproduction(lrbpfl)


def shape(rows: pd.DataFrame) -> Listing:
    found = make_table(rows, "table1").listing
    assert found is not None
    return found


def test_metrics_are_columns_and_ours_stands_beneath_theirs(rows: pd.DataFrame) -> None:
    found = shape(rows)
    assert found.heads == ("Dataset", "Method", "Source")
    assert found.sources == [
        "training time of an update (s)",
        "training time, pFedBayes being 1 (x)",
        "numbers of a client's model (M)",
        "bytes a client sends in a round (MB)",
    ]
    assert {item.dataset for item in found.items} == {"CIFAR-10"} and found.items[0].span == len(found.items)
    metavd = [item for item in found.items if item.setting == "MetaVD"]
    assert [item.method for item in metavd] == ["published", "ours, all-layers", "ours, reference"]
    assert [entry.text for entry in metavd[0].entries] == ["0.026", "0.76", "2.44", "9.76"]
    assert not any(entry.missing for item in found.items for entry in item.entries)


def test_a_method_of_which_nothing_ran_says_so_once(rows: pd.DataFrame) -> None:
    left = rows.copy()
    left.loc[left["method"] == "pFedGP", ["status", "preset"]] = ["not run", ""]
    own = [item for item in shape(left).items if item.setting == "pFedGP"]
    assert [item.method for item in own] == ["published", "ours"]
    assert [entry.text for entry in own[1].entries] == ["not run"] * 4


def test_the_papers_machine_is_told_of_its_own_numbers_alone(lrbpfl: Path, rows: pd.DataFrame, tmp_path: Path) -> None:
    made = make_table(rows, "table1")
    assert "The paper's headings, of its own numbers alone: RTX 4090 (training time of an update (s)" in made.reading
    assert {row["Setting"] for row in made.ran} == {"CIFAR-10"}
    files = [tmp_path / f"table1.{kind}" for kind in ("html", "tex", "csv")]
    table(lrbpfl, "table1", *files)
    page = files[0].read_text(encoding="utf-8")
    assert page.count("RTX 4090") == 1 and '<th class="pin" rowspan="2">Method</th>' in page
