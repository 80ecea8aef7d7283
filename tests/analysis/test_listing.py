"""Tables of many settings: turned on their side, with every number of the matrix in its place."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from campaign import Campaign
from fedbayes.analysis.compare import read_reproduction
from fedbayes.analysis.listing import Listing, by_setting
from fedbayes.analysis.matrix import matrix
from fedbayes.analysis.tables import make_table, table


@pytest.fixture(scope="module")
def rows(smoke: Campaign) -> pd.DataFrame:
    """Table 2 with numbers of ours at its first setting, Table 3 with none."""
    rows = read_reproduction(smoke.reproduction)
    first = rows[rows["table"] == "Table2"].iloc[0]["setting"]
    ours = (rows["table"] == "Table2") & (rows["setting"] == first)
    rows.loc[ours, ["status", "preset", "why_no_verdict"]] = ["run", "paper", "1 seed"]
    rows.loc[ours, "ours"] = [0.9611, 0.9022]  # PM, GM
    return rows


def listing_of(rows: pd.DataFrame, key: str) -> Listing:
    found = make_table(rows, key).listing
    assert found is not None
    return found


def test_only_wide_tables_are_turned(rows: pd.DataFrame) -> None:
    assert make_table(rows, "table1").listing is None  # 9 settings
    settings = rows.query("table == 'Table2'").drop_duplicates("setting")["setting"]
    twelve = rows[(rows["table"] == "Table2") & rows["setting"].isin(settings[:12])]
    assert make_table(twelve, "table2").listing is None
    thirteen = rows[(rows["table"] == "Table2") & rows["setting"].isin(settings[:13])]
    assert make_table(thirteen, "table2").listing is not None


def test_settings_are_rows_and_models_columns(rows: pd.DataFrame) -> None:
    found = listing_of(rows, "table2")
    assert found.groups == [("PM", 2), ("GM", 2)]
    assert found.sources == ["published", "ours, paper"] * 2
    assert len(found.items) == 18 and [item.span for item in found.items] == [18] + [0] * 17
    first, second = found.items[:2]
    assert (first.dataset, first.method) == ("MNIST", "pFedBayes")
    assert first.setting == "medium rho=-1 zeta=10 eta1=0.001 eta2=0.001"
    assert [entry.text for entry in first.entries] == ["97.38", "96.11", "91.61", "90.22"]
    assert [entry.text for entry in second.entries] == ["97.12", "not run", "90.32", "not run"]


def test_a_method_has_rows_only_where_it_has_numbers(rows: pd.DataFrame) -> None:
    found = listing_of(rows, "table3")
    printed = rows.query("table == 'Table3'").drop_duplicates(["setting", "method"])
    assert {(item.setting, item.method) for item in found.items} == set(
        zip(printed["setting"], printed["method"], strict=True)
    )
    assert found.sources == ["published", "ours"] * 2
    amp = next(item for item in found.items if item.method == "HeurFedAMP")
    personal = found.groups.index(("PM", 2)) * 2
    assert [entry.text for entry in amp.entries[personal : personal + 2]] == ["89.73", "not run"]
    assert {entry.text for entry in amp.entries} == {"89.73", "not run", "–"}


def test_a_method_that_did_not_run_says_so_beside_one_that_did(rows: pd.DataFrame) -> None:
    table3 = rows[rows["table"] == "Table3"].copy()
    ours = table3.index[(table3["method"] == "pFedMe") & (table3["metric"] == "acc_PM_pct")][0]
    table3.loc[ours, ["status", "preset", "why_no_verdict"]] = ["run", "paper", "1 seed"]
    table3.loc[ours, "ours"] = 0.5
    found = by_setting(matrix(table3))
    personal = found.sources[: found.groups[0][1]] if found.groups[0][0] == "PM" else found.sources[-2:]
    assert personal == ["published", "ours, paper"]
    amp = next(item for item in found.items if item.method == "HeurFedAMP")
    assert "not run" in [entry.text for entry in amp.entries]


@pytest.mark.parametrize("key", ["table2", "table3"])
def test_the_page_has_a_row_for_each_setting(rows: pd.DataFrame, key: str, tmp_path: Path) -> None:
    rows.to_csv(tmp_path / "rows.csv", index=False)
    html, tex, csv = (tmp_path / f"{key}.{kind}" for kind in ("html", "tex", "csv"))
    table(tmp_path / "rows.csv", key, html, tex, csv)
    items = listing_of(rows, key).items
    page, fragment = html.read_text(encoding="utf-8"), tex.read_text(encoding="utf-8")
    assert page.count('<th class="pin words"') == len({(item.dataset, item.setting) for item in items})
    assert page.count('<td class="source">') == len(items)
    assert sum(line.endswith(r"\tabularnewline") and "=" in line for line in fragment.splitlines()) >= len(items)
