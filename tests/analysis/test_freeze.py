"""Frozen results: what is kept, what is replaced, and the table in the README."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from campaign import Campaign
from fedbayes.analysis.freeze import (
    END,
    MOST_ROWS,
    START,
    fill,
    freeze,
    freeze_scale,
    headline,
    paper_table,
    readme_table,
)
from fedbayes.io import read_json, write_json
from fedbayes.reading import ConfigError


@pytest.fixture
def frozen(full: Campaign, tmp_path: Path) -> Path:
    target = tmp_path / "pfedbayes.csv"
    freeze(full.reproduction, full.root, target)
    return target


def read(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def test_only_what_ran_is_kept_with_its_provenance(frozen: Path) -> None:
    rows = read(frozen)
    assert list(rows["variant"]) == ["", "stratified split"]
    first = rows.iloc[0]
    assert (first["ours"], first["std"], first["published"]) == ("0.909", "0.01", "0.8738")
    assert first["ci_low"] == "0.884159"
    assert (first["seed_list"], first["commit"], first["verdict"]) == ("0 1 2", "unknown", "better")
    assert first["hardware"] == "test; device cpu; threads 1"
    assert first["hours"] == "0.010417"  # 3 x 12.5 s
    assert len(first["runs"].split()) == 3


def test_freezing_again_changes_nothing(full: Campaign, frozen: Path) -> None:
    before = frozen.read_bytes()
    freeze(full.reproduction, full.root, frozen)
    assert frozen.read_bytes() == before


def test_presets_stand_in_the_order_of_the_papers_file(full: Campaign, frozen: Path, tmp_path: Path) -> None:
    rows = read(full.reproduction)
    later = rows[rows["status"] == "run"].assign(preset="aardvark")
    pd.concat([rows, later]).to_csv(tmp_path / "more.csv", index=False)
    freeze(tmp_path / "more.csv", full.root, frozen)
    assert list(read(frozen)["preset"]) == ["paper", "paper", "aardvark", "aardvark"]


def test_a_partial_campaign_replaces_its_own_rows_only(full: Campaign, frozen: Path, tmp_path: Path) -> None:
    rows = read(full.reproduction)
    part = rows[rows["variant"] != "stratified split"].copy()
    part.loc[part["status"] == "run", "ours"] = "0.88"
    part.to_csv(tmp_path / "part.csv", index=False)
    freeze(tmp_path / "part.csv", full.root, frozen)
    assert list(read(frozen)["ours"]) == ["0.88", "0.909"]


def test_nothing_run_deletes_nothing(full: Campaign, frozen: Path, tmp_path: Path) -> None:
    before = frozen.read_bytes()
    rows = read(full.reproduction)
    rows[rows["status"] == "not run"].to_csv(tmp_path / "none.csv", index=False)
    freeze(tmp_path / "none.csv", full.root, frozen)
    assert frozen.read_bytes() == before


def test_a_missing_run_is_named(full: Campaign, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the run is not there"):
        freeze(full.reproduction, tmp_path, tmp_path / "target.csv")
    assert not (tmp_path / "target.csv").exists()


def test_runs_of_changed_code_are_told_on_the_terminal(
    full: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(full.root / "results", tmp_path / "results")
    freeze(full.reproduction, tmp_path, tmp_path / "frozen.csv")
    assert capsys.readouterr().err == ""
    run = read(tmp_path / "frozen.csv").iloc[0]["runs"].split()[1]
    (record,) = (tmp_path / "results/runs").glob(f"*/*/{run}/run.json")
    write_json(record, read_json(record) | {"commit": "0123456789ab-dirty"})
    freeze(full.reproduction, tmp_path, tmp_path / "frozen.csv")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "1 row of" in said[0] and "`-dirty` in the column `commit`" in said[0]
    assert read(tmp_path / "frozen.csv").iloc[0]["commit"] == "unknown 0123456789ab-dirty"


def test_the_table_of_a_papers_page(frozen: Path) -> None:
    lines = paper_table(frozen).splitlines()
    assert len(lines) == 4
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells[:10] == [
        "pFedBayes",
        "Table 1",
        "MNIST small",
        "FedAvg",
        "paper",
        "GM",
        "accuracy",
        "90.90 ± 1.00 %",
        "87.38 ± 0.27 %",
        "+3.52",
    ]
    assert cells[10:] == ["3", "MNIST", "paper", "88.42 to 93.38", "90.50", "90.90", "better"]


def test_the_readme_shows_main_variants_and_says_where_the_rest_is(frozen: Path) -> None:
    text = readme_table([frozen])
    assert text.count("| pFedBayes |") == 1 and "stratified" not in text
    assert "| 95 % interval |" not in text and "| 95 % interval |" in paper_table(frozen)
    assert "pFedBayes [2 rows](docs/papers/pfedbayes.md#results) ([CSV](docs/reproduction/pfedbayes.csv))" in text


def test_headlines_are_chosen_by_rule(frozen: Path) -> None:
    one = read(frozen).iloc[0].to_dict()
    cells = [
        ("A", "3", "paper", "reproduced", "global_loss_nll"),
        ("A", "1", "paper", "", "acc_GM_pct"),  # accuracy is before other metrics
        ("B", "3", "reduced", "", "acc_GM_pct"),
        ("B", "1", "paper", "", "acc_GM_pct"),  # the paper's scale is before more seeds
        ("B", "2", "paper", "", "acc_GM_pct"),
        ("C", "3", "paper", "worse", "acc_GM_pct"),  # a bad verdict is a verdict
        *((name, "1", "reduced", "", "acc_GM_pct") for name in "DEF"),
        ("pFedBayes", "1", "reduced", "", "acc_GM_pct"),  # the paper's own method is never left out
    ]
    names = ["method", "seeds", "scale", "verdict", "metric"]
    rows = pd.DataFrame([one | dict(zip(names, cell, strict=True)) for cell in cells])
    chosen = headline(rows)
    assert len(chosen) == MOST_ROWS
    assert list(chosen.index) == [1, 4, 5, 6, 9]


def test_only_the_part_between_the_marks_is_rewritten(frozen: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n{START}\nold\n{END}\nrest\n", encoding="utf-8")
    fill(readme, paper_table(frozen))
    once = readme.read_text(encoding="utf-8")
    fill(readme, paper_table(frozen))
    assert readme.read_text(encoding="utf-8") == once == f"# Title\n{START}\n{paper_table(frozen)}{END}\nrest\n"


def test_a_readme_without_marks_is_left_alone(frozen: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Title\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="reproduction:start"):
        fill(readme, paper_table(frozen))
    assert readme.read_text(encoding="utf-8") == "# Title\n"


def test_no_frozen_results_are_said_in_words() -> None:
    assert readme_table([]) == "No results have been frozen yet.\n"


def test_smoke_is_never_frozen_and_nothing_is_not_frozen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="smoke proves nothing"):
        freeze_scale("smoke", tmp_path)
    with pytest.raises(ConfigError, match="no results at scale paper"):
        freeze_scale("paper", tmp_path)


def test_one_command_renews_every_page(full: Campaign, tmp_path: Path) -> None:
    shutil.copytree(full.root / "results", tmp_path / "results")
    target = tmp_path / "results/paper/reproduction/pfedbayes.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(full.reproduction, target)
    for page in ("README.md", "docs/papers/pfedbayes.md"):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text(f"before\n{START}\nold\n{END}\nafter\n")
    freeze_scale("paper", tmp_path)
    for page in ("README.md", "docs/papers/pfedbayes.md"):
        text = (tmp_path / page).read_text()
        assert "87.38" in text and "old" not in text and text.endswith("after\n")


def test_a_paper_without_a_page_is_frozen_all_the_same(full: Campaign, tmp_path: Path) -> None:
    shutil.copytree(full.root / "results", tmp_path / "results")
    (tmp_path / "README.md").write_text(f"{START}\nold\n{END}\n")
    freeze_scale("paper", tmp_path)
    assert "87.38" in (tmp_path / "README.md").read_text()
    assert not (tmp_path / "docs/papers").exists()


def test_rows_of_another_scale_are_refused_before_anything_is_written(full: Campaign, tmp_path: Path) -> None:
    folder = tmp_path / "results/paper/reproduction"
    folder.mkdir(parents=True)
    shutil.copy(full.reproduction, folder / "a.csv")
    read(full.reproduction).assign(scale="reduced").to_csv(folder / "b.csv", index=False)
    with pytest.raises(ConfigError, match=r"b\.csv.*scale.*found rows of reduced; expected paper only"):
        freeze_scale("paper", tmp_path)
    assert not (tmp_path / "docs").exists()


def test_an_older_file_without_a_column_is_brought_up_to_date(full: Campaign, frozen: Path) -> None:
    before = frozen.read_bytes()
    read(frozen).drop(columns="diverged").to_csv(frozen, index=False)
    assert "| better |" in paper_table(frozen)
    freeze(full.reproduction, full.root, frozen)
    assert frozen.read_bytes() == before


def test_rows_stand_in_the_papers_order(full: Campaign, frozen: Path) -> None:
    earlier = read(frozen).assign(setting=["large", "medium"], variant="")
    earlier.to_csv(frozen, index=False)
    freeze(full.reproduction, full.root, frozen)
    assert list(read(frozen)["setting"]) == ["small", "small", "medium", "large"]
