"""A finished campaign of FedAvg on MNIST small, taken as far as the comparison with the paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from artefacts import ROOT, make_plan, write_run
from fedbayes.analysis.compare import compare
from fedbayes.analysis.summarize import summarize
from fedbayes.plan import Plan

PUBLISHED = ROOT / "config" / "published.csv"


@dataclass(frozen=True)
class Campaign:
    root: Path
    plan: Plan

    @property
    def folder(self) -> Path:
        return self.root / "results" / self.plan.config.scale

    @property
    def index(self) -> Path:
        return self.folder / "index" / "pfedbayes.csv"

    @property
    def summary(self) -> Path:
        return self.folder / "summary" / "pfedbayes.parquet"

    @property
    def reproduction(self) -> Path:
        return self.folder / "reproduction" / "pfedbayes.csv"


def make_campaign(root: Path, scale: str) -> Campaign:
    campaign = Campaign(root, make_plan(scale=scale))
    cells = [
        cell
        for cell in campaign.plan.cells_of("pfedbayes")
        if cell.method == "FedAvg" and cell.setting in ("mnist-small", "mnist-small-stratified")
    ]
    for cell in cells:
        write_run(root, cell.run)
    campaign.index.parent.mkdir(parents=True)
    pd.DataFrame([cell.row() for cell in cells]).to_csv(campaign.index, index=False)
    summarize(campaign.index, root, campaign.summary)
    compare(campaign.summary, PUBLISHED, "pFedBayes", "pfedbayes", campaign.reproduction)
    return campaign
