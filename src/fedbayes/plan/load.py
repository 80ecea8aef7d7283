"""The way in: what Snakemake was asked for, to a plan or one sentence that says why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedbayes.config import Config
from fedbayes.plan.known import read_committed_splits, read_known
from fedbayes.plan.layout import cells_of_paper
from fedbayes.plan.papers import ASKED, read_papers, wanted
from fedbayes.plan.plan import Plan
from fedbayes.plan.which_data import check_outsiders
from fedbayes.reading import parse


def load_plan(config: dict[str, Any], root: Path) -> Plan:
    """Check everything under `root/config` that `config` asks for and lay out all cells.

    Args:
        config: the mapping Snakemake made of `config/config.yaml`, `--configfile` and `--config`.
        root: the folder that holds `config/`.
    """
    asked = parse(Config, config, ASKED)
    known = read_known(root)
    whole = read_papers(known, asked)
    papers = wanted(asked.experiments, whole)
    cells = [cell for key, paper in papers.items() for cell in cells_of_paper(known, asked, key, paper)]
    check_outsiders(cells)
    return Plan(asked, papers, whole, known.datasets, tuple(cells), read_committed_splits(root))
