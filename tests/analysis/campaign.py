"""A finished campaign of FedAvg on MNIST small, taken as far as the comparison with the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from artefacts import ROOT, accuracy_at, make_plan, write_run
from fedbayes.analysis.compare import compare
from fedbayes.analysis.summarize import summarize
from fedbayes.io import read_json, write_json
from fedbayes.plan import Cell, Plan

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

    @property
    def cells(self) -> list[Cell]:
        settings = ("mnist-small", "mnist-small-stratified")
        cells = self.plan.cells_of("pfedbayes")
        return [cell for cell in cells if cell.method == "FedAvg" and cell.setting in settings]

    @property
    def rounds(self) -> int:
        return int(self.cells[0].run.spec["training"]["rounds"])

    @property
    def best(self) -> float:
        """The best accuracy of the first seed."""
        return accuracy_at(self.cells[0].run, self.rounds - 2)

    def analyse(self) -> None:
        """Summary and comparison from what stands in the folder."""
        summarize(self.index, self.root, self.summary)
        compare(self.summary, PUBLISHED, "pFedBayes", "pfedbayes", self.plan.config.scale, self.reproduction)


def make_campaign(root: Path, scale: str) -> Campaign:
    campaign = Campaign(root, make_plan(scale=scale))
    for cell in campaign.cells:
        write_run(root, cell.run)
    campaign.index.parent.mkdir(parents=True)
    pd.DataFrame([cell.row() for cell in campaign.cells]).to_csv(campaign.index, index=False)
    campaign.analyse()
    return campaign


def add_cells(campaign: Campaign, **changes: str) -> None:
    """The cells of the campaign once more under other names, filled by the same runs."""
    index = pd.read_csv(campaign.index, dtype=str, keep_default_na=False)
    pd.concat([index, index.assign(**changes)]).to_csv(campaign.index, index=False)
    campaign.analyse()


def diverge(campaign: Campaign, by_seed: Mapping[int, dict[str, Any]]) -> None:
    """Change the records of the first setting's runs, for each seed in its own way."""
    for cell in campaign.cells:
        if cell.setting == "mnist-small" and cell.seed in by_seed:
            file = campaign.root / cell.run.folder / "run.json"
            write_json(file, read_json(file) | {"outcome": "diverged"} | by_seed[cell.seed])
    campaign.analyse()
