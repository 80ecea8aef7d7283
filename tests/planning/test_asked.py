"""One table by its file name: its own runs, those it compares with, and what ran before."""

from __future__ import annotations

from pathlib import Path

import pytest

from artefacts import make_plan, write_run
from fedbayes.asked import cells_asked, check_asked, folders_asked, tables_asked
from fedbayes.plan import Cell, ConfigError


def test_targets_that_are_tables_alone() -> None:
    one = "results/paper/tables/bpfed/tableii.html"
    assert tables_asked([one, "./results/paper/tables/bpfed/tablei.tex"], "paper") == {"bpfed": {"tableii", "tablei"}}
    assert tables_asked([one], "smoke") == {}
    assert tables_asked([one, "results/paper/figures/bpfed/figure3.svg"], "paper") == {}
    assert tables_asked([one, "all"], "paper") == {} and tables_asked([], "paper") == {}


@pytest.mark.parametrize(("paper", "table"), [("bpfed", "tableii"), ("pfedbayes", "table1"), ("feduab", "table8")])
def test_a_table_needs_all_its_cells_and_no_others(paper: str, table: str, tmp_path: Path) -> None:
    plan = make_plan(scale="paper", papers=[paper], seeds=[0])
    asked = tables_asked([f"results/paper/tables/{paper}/{table}.csv"], "paper")
    found = cells_asked(plan, paper, asked, tmp_path)
    assert {cell.published_table.lower() for cell in found} == {table}
    assert found == [cell for cell in plan.cells if cell.published_table.lower() == table]
    assert len({cell.experiment for cell in found}) > 1, "tables are made of several experiments"
    assert len(folders_asked(plan, paper, asked, tmp_path)) < len(plan.runs)
    assert cells_asked(plan, paper, {}, tmp_path) == plan.cells_of(paper)
    assert cells_asked(plan, paper, {"another": frozenset({table})}, tmp_path) == plan.cells_of(paper)


def test_a_table_that_a_paper_does_not_have_is_named() -> None:
    plan = make_plan()
    check_asked(plan, {"pfedbayes": frozenset({"table1", "ours-figure3"}), "another": frozenset({"table1"})})
    with pytest.raises(ConfigError, match=r"unknown table: found 'table9'; allowed: .*table1.*did you mean 'table"):
        check_asked(plan, {"pfedbayes": frozenset({"table9"})})


def test_the_columns_of_cells_are_known_without_one() -> None:
    assert Cell.columns() == list(make_plan().cells[0].row())


def test_a_table_of_our_own_goes_by_its_name(tmp_path: Path) -> None:
    plan = make_plan(scale="paper", papers=["bpfed"], seeds=[0])
    found = cells_asked(plan, "bpfed", {"bpfed": frozenset({"ours-ablations"})}, tmp_path)
    assert {cell.experiment for cell in found} == {"ablations"}


def test_what_it_compares_with_runs_too(tmp_path: Path) -> None:
    plan = make_plan(scale="paper", papers=["selffl"], seeds=[0])
    asked = tables_asked(["results/paper/tables/selffl/table6.html"], "paper")
    cells = cells_asked(plan, "selffl", asked, tmp_path)
    central = {cell.baseline for cell in cells}
    assert central and central <= {cell.run.folder for cell in plan.cells if cell.experiment == "audio-central"}
    assert set(folders_asked(plan, "selffl", asked, tmp_path)) == {cell.run.folder for cell in cells} | central


def test_what_ran_before_stays(tmp_path: Path) -> None:
    plan = make_plan()
    other = next(cell for cell in plan.cells if cell.published_table != "Table3")
    write_run(tmp_path, other.run)
    found = cells_asked(plan, "pfedbayes", {"pfedbayes": frozenset({"table3"})}, tmp_path)
    assert {cell.published_table for cell in found if cell.run != other.run} == {"Table3"}
    assert other in found and found == [cell for cell in plan.cells if cell in found]
    for run in plan.runs.values():
        write_run(tmp_path, run)
    assert cells_asked(plan, "pfedbayes", {"pfedbayes": frozenset({"table3"})}, tmp_path) == plan.cells_of("pfedbayes")
