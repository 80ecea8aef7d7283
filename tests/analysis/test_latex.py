"""All tables of all papers as LaTeX: they compile, and no column is printed off the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from campaign import Campaign
from fedbayes.analysis.compare import read_reproduction
from fedbayes.analysis.grid import Column, blocks, measure
from fedbayes.analysis.latex import escape
from fedbayes.analysis.tables import make_table, table
from made_up import PAPERS, compared, full_plan

DOCUMENT = r"""\documentclass{article}\usepackage{booktabs,longtable,pdflscape}\begin{document}
%s
\end{document}
"""
# Points that a line may be too wide: nobody sees less.
SLACK = 1.0


def needs_latex() -> None:
    if shutil.which("pdflatex") is None:
        if os.environ.get("FEDBAYES_REQUIRE_LATEX"):
            pytest.fail("FEDBAYES_REQUIRE_LATEX is set, but there is no pdflatex")
        pytest.skip("needs LaTeX")


def compiled(folder: Path, names: list[str]) -> str:
    """The log of a document that has all fragments in it."""
    body = "\n\\clearpage\n".join(rf"\input{{{name}}}" for name in names)
    (folder / "all.tex").write_text(DOCUMENT % body, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "all.log").read_text(encoding="latin-1")


def too_wide(log: str) -> list[str]:
    """What LaTeX says of lines and pages that do not fit."""
    found = re.findall(r"Overfull \\[hv]box \((\d+\.\d+)pt too (?:wide|high)\)[^\n]*", log)
    lines = re.findall(r"Overfull \\[hv]box[^\n]*", log)
    return [line for line, points in zip(lines, found, strict=True) if float(points) > SLACK]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_of_a_paper_fits_the_page(paper: str, tmp_path: Path) -> None:
    needs_latex()
    plan = full_plan(paper)
    reproduction = compared(paper, plan, tmp_path)
    names = plan.shown(paper, "Table")
    for name in names:
        table(reproduction, name, tmp_path / f"{name}.html", tmp_path / f"{name}.tex", tmp_path / f"{name}.csv")
    assert too_wide(compiled(tmp_path, names)) == []


def test_a_page_that_is_too_small_is_noticed(tmp_path: Path) -> None:
    needs_latex()
    (tmp_path / "wide.tex").write_text(r"\noindent\rule{400pt}{1pt}", encoding="utf-8")
    assert len(too_wide(compiled(tmp_path, ["wide"]))) == 1


def test_divergences_and_tables_without_any_run_compile(diverged: Campaign, tmp_path: Path) -> None:
    needs_latex()
    for key in ("table1", "table3"):
        table(diverged.reproduction, key, tmp_path / f"{key}.html", tmp_path / f"{key}.tex", tmp_path / f"{key}.csv")
    compiled(tmp_path, ["table1", "table3"])


def test_everything_the_page_says_of_a_run_is_in_the_latex(full: Campaign, tmp_path: Path) -> None:
    made = make_table(read_reproduction(full.reproduction), "table1")
    table(full.reproduction, "table1", tmp_path / "t.html", tmp_path / "t.tex", tmp_path / "t.csv")
    tex = (tmp_path / "t.tex").read_text(encoding="utf-8")
    statistics = {"95 % interval", "Last round", "Mean of last 100", "Pooled", "Client mean", "Worst client"}
    assert statistics <= set(made.ran[0])
    for name in made.ran[0]:
        assert rf"\raggedright {escape(name)}" in tex, name
    assert escape(made.ran[0]["95 % interval"]) in tex and escape(made.ran[0]["Last round"]) in tex


def test_the_head_of_a_fragment_names_the_packages_it_needs(full: Campaign, tmp_path: Path) -> None:
    table(full.reproduction, "table1", tmp_path / "t.html", tmp_path / "t.tex", tmp_path / "t.csv")
    head = (tmp_path / "t.tex").read_text(encoding="utf-8").split("\n\n")[0]
    assert all(line.startswith("%") for line in head.splitlines())
    assert re.findall(r"\\usepackage\{(\w+)\}", head) == ["booktabs", "longtable", "pdflscape"]


def test_columns_that_do_not_fit_follow_in_another_block_of_the_same_rows() -> None:
    key = Column("Method", ["FedAvg"])
    columns = [Column(str(number), ["90.00"]) for number in range(10)]
    found = blocks([key], columns, room=100.0, digit=4.0, gap=5.0)
    assert [column.head for block in found for column in block] == [column.head for column in columns]
    widths = [sum(column.width(4.0) + 5.0 for column in [key, *block]) for block in found]
    assert max(widths) <= 100.0 and max(map(len, found)) - min(map(len, found)) <= 1


def test_long_texts_take_several_lines_and_words_never_break() -> None:
    column = Column("Reduction", ["rounds 200 (paper 800); window 0-200"], most=40.0)
    assert column.width(4.0) == pytest.approx(max(40.0, 4.0 * measure("Reduction")))
    assert Column("x", ["a" * 30], most=40.0).width(4.0) == pytest.approx(120.0)
