"""Every paper at scale smoke: all its kinds of data, splits and networks go through the real workflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from artefacts import ROOT, make_plan
from checkout import copy_project, snakemake

PAPERS = sorted(file.stem for file in (ROOT / "config/papers").glob("*.yaml"))


def test_the_default_configuration_runs_every_paper() -> None:
    line = next(line for line in (ROOT / "config/config.yaml").read_text().splitlines() if line.startswith("papers: "))
    assert sorted(line.removeprefix("papers: ").strip("[]").split(", ")) == PAPERS


@pytest.mark.parametrize("scale", ["smoke", "reduced", "paper"])
def test_every_paper_can_be_planned_at_every_scale(scale: str) -> None:
    assert {cell.paper for cell in make_plan(scale=scale, papers=PAPERS).cells} == set(PAPERS)


def test_scale_smoke_runs_on_embedded_data_alone() -> None:
    plan = make_plan(papers=PAPERS)
    embedded = {facts.embedded for facts in plan.datasets.values()}
    assert {run.dataset for run in plan.runs.values()} <= embedded
    assert len(plan.runs) <= 85


@pytest.mark.slow
@pytest.mark.parametrize("paper", [paper for paper in PAPERS if paper != "pfedbayes"])
def test_a_paper_at_scale_smoke(paper: str, tmp_path: Path) -> None:
    folder = copy_project(tmp_path, paper)
    snakemake(folder, "--cores", "1", "results/smoke/report/index.html")
    plan = make_plan(papers=[paper])
    for run in plan.runs.values():
        record = json.loads((folder / run.folder / "run.json").read_text())
        assert record["outcome"] == "finished"
        assert (folder / run.folder / "evaluation.parquet").exists()
    report = (folder / "results/smoke/report/index.html").read_text()
    for run in plan.runs.values():
        assert run.id in report
        assert plan.datasets[run.dataset].title in report
