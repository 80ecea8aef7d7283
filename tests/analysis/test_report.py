"""The report and the terminal's table: complete, honest about the scale, in need of no other file."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from artefacts import ROOT
from campaign import Campaign
from fedbayes.analysis.compare import read_reproduction
from fedbayes.analysis.coverage import NO_EXPERIMENT, core_hours, unrun
from fedbayes.analysis.drawing import Drawn, write_picture
from fedbayes.analysis.figures import figure
from fedbayes.analysis.report import chapters_of, counts, report
from fedbayes.analysis.terminal import terminal_table
from fedbayes.analysis.verdict import RULE

SPLITS = ("mnist-small", "mnist-large")


def picture_of_a_split(svg: Path) -> Path:
    write_picture(lambda: Drawn(Figure(figsize=(1, 1)), f"Client split of {svg.stem}."), svg, svg.with_suffix(".png"))
    return svg


def left_out(campaign: Campaign) -> dict[str, list[dict[str, Any]]]:
    return {"pfedbayes": campaign.plan.left_out("pfedbayes")}


def make_report(campaign: Campaign, folder: Path) -> str:
    svg = folder / "figures" / "pfedbayes" / "figure2.svg"
    titles = campaign.plan.setting_titles("pfedbayes")
    figure(
        "pfedbayes/figure2",
        campaign.index,
        campaign.root,
        titles,
        ROOT / "config/curves.csv",
        svg,
        svg.with_suffix(".png"),
    )
    tables = [folder / "tables" / "pfedbayes" / "table1.html"]
    splits = [picture_of_a_split(folder / "splits" / "pfedbayes" / f"{name}.svg") for name in SPLITS]
    chapters = chapters_of(
        campaign.plan.headers, left_out(campaign), [campaign.reproduction], [campaign.index], tables, [svg], splits
    )
    report(campaign.plan.config.scale, chapters, campaign.root, "abc123", folder / "index.html")
    return (folder / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(smoke: Campaign, tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_report(smoke, tmp_path_factory.mktemp("report"))


class Tags(HTMLParser):
    """Checks that tags close in order, and keeps what the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        self.loads += [value or "" for name, value in attrs if name == "src" or (tag == "link" and name == "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing_from_elsewhere(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.loads and all(source.startswith("data:") for source in tags.loads)
    assert "@import" not in page and "url(" not in page and "<script" not in page


def test_the_page_says_what_the_scale_proves(page: str) -> None:
    assert "proves nothing about a paper" in page


def test_the_page_has_citation_tables_figures_runs_rule_and_footer(page: str, smoke: Campaign) -> None:
    run = read_reproduction(smoke.reproduction).query("status == 'run'").iloc[0]["runs"]
    wanted = ["X. Zhang, Y. Li", "https://proceedings.mlr.press/v162/zhang22o.html", "87.38 ± 0.27", "not run"]
    wanted += ["Figure 2. Test accuracy", "data:image/svg+xml;base64,", run, "1" * 12, "test; device cpu; threads 1"]
    wanted += ["commit <span", "abc123", "torch 2.13.0", "1 of 172 printed numbers run", "1 / 172"]
    wanted += ["Student&#39;s t over seeds", "Last round", "Pooled", "Client mean", '<img loading="lazy"']
    for text in wanted:
        assert text in page, text
    for term in RULE:
        assert f"<dt>{term}</dt>" in page


def test_the_page_says_what_did_not_run_and_what_the_rest_cost(page: str, smoke: Campaign) -> None:
    missing = unrun(read_reproduction(smoke.reproduction), left_out(smoke)["pfedbayes"])
    large = next(part for part in missing if part.setting == "MNIST large")
    assert (large.methods.split(", ")[0], large.numbers) == ("FedAvg", 8)
    assert f'<td class="num">{large.cells}</td><td class="num">8</td>' in page
    # The campaign ran FedAvg alone, so numbers of planned cells of other methods are told as well.
    assert any(part.experiment == NO_EXPERIMENT for part in missing)
    assert "0.003 core-hours of training in 1 run" in page and "<th>Hardware</th>" in page


def test_core_hours_count_threads() -> None:
    assert core_hours({"seconds": 1800, "hardware": {"threads": 4}}) == 2.0


def test_the_page_shows_the_client_splits_and_folds_many_away(page: str, smoke: Campaign, tmp_path: Path) -> None:
    assert "<details open>\n<summary>2 splits at the first seed" in page
    for name in SPLITS:
        assert f'<figure id="pfedbayes-split-{name}">' in page
        assert f"<figcaption>Client split of {name}.</figcaption>" in page
    many = [picture_of_a_split(tmp_path / "pfedbayes" / f"{number}.svg") for number in range(4)]
    foreign = picture_of_a_split(tmp_path / "other" / "0.svg")
    files = ([smoke.reproduction], [smoke.index], [], [], [*many, foreign])
    report(
        "smoke", chapters_of(smoke.plan.headers, left_out(smoke), *files), smoke.root, "abc123", tmp_path / "index.html"
    )
    assert "<details>\n<summary>4 splits at" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_the_page_is_readable_on_a_phone_and_in_the_dark(page: str) -> None:
    assert 'name="viewport"' in page and "prefers-color-scheme: dark" in page
    tables, boxes = page.count("<table>"), page.count('<div class="scroll"')
    assert tables == boxes > 0


def test_the_same_results_give_the_same_page(smoke: Campaign, tmp_path: Path, page: str) -> None:
    assert make_report(smoke, tmp_path) == page


def test_counts(full: Campaign) -> None:
    found = counts(read_reproduction(full.reproduction))
    assert (found["printed"], found["run"], found["not run"]) == (172, 1, 171)
    assert (found["better"], found["reproduced"], found["no verdict"]) == (2, 0, 0)  # two variants of one number


def test_the_terminal_table_of_a_smoke_run(smoke: Campaign) -> None:
    lines = terminal_table([smoke.reproduction]).splitlines()
    assert lines[0] == "pFedBayes"
    assert lines[3].split() == [
        "FedAvg",
        "MNIST",
        "small",
        "GM",
        f"{100 * smoke.best:.2f}",
        "87.38±0.27",
        f"{100 * smoke.best - 87.38:.2f}".replace("-", "−"),
        "1",
        "MNIST-5k",
        "smoke",
        "-",
    ]
    assert lines[4] == "No verdict where: scale smoke; stand-in for MNIST; 1 seed."
    assert lines[-1] == "1 of 172 printed numbers run."


def test_the_terminal_table_fits_a_terminal_and_tells_variants_apart(full: Campaign) -> None:
    text = terminal_table([full.reproduction])
    assert max(map(len, text.splitlines())) <= 104
    assert re.search(r"90\.90±1\.00 +87\.38±0\.27 +\+3\.52 +3 +MNIST +paper +better", text)
    assert text.count("stratified") == 1
