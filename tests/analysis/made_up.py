"""Summaries of whole papers with invented numbers: every cell of the plan, every metric, three seeds."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pandas as pd

from artefacts import METRICS, ROOT, make_plan
from fedbayes.analysis.compare import compare
from fedbayes.analysis.summarize import CELL
from fedbayes.plan import Cell, Plan

PAPERS = ("pfedbayes", "selffl", "bpfed", "lrbpfl", "feduab")
SCOPES = {"pooled": 0.0, "mean": -0.001, "worst": -0.05}
SELECTIONS = {"best": 0.0, "last": -0.0123, "mean100": -0.011}
COSTS = ("weights", "bytes", "seconds_per_update", "time_beside_pfedbayes")
COSTS += ("time_factor", "space_factor", "communication_factor")


def full_plan(paper: str) -> Plan:
    """Everything a paper's file has."""
    return make_plan(scale="paper", papers=[paper], seeds=[0])


def compared(paper: str, plan: Plan, folder: Path) -> Path:
    """The reproduction of a plan with invented numbers."""
    parts = [_summary(cell) for cell in plan.cells]
    pd.concat(parts, ignore_index=True).to_parquet(folder / "summary.parquet")
    out = folder / "reproduction.csv"
    name, scale = plan.papers[paper].name, plan.config.scale
    compare(folder / "summary.parquet", ROOT / "config/published.csv", name, paper, scale, out)
    return out


def _summary(cell: Cell) -> pd.DataFrame:
    """What the summary has of a cell; newcomers and local tests where a run has them."""
    split, protocol = cell.run.spec["split"], cell.run.spec["protocol"]
    conditions = dict.fromkeys([cell.published_condition, "clean"])
    if split.get("newcomers") or split["rule"] == "joined":
        conditions["new"] = None
    estimates = split["rule"] == "repeats"
    metrics = ("error", "distance") if estimates else (*METRICS, "relative_fa")
    rows = [
        (model, condition, scope, metric, selection, _value(metric) + shift + other)
        for model in protocol["models"]
        for condition, (scope, shift), metric, (selection, other) in product(
            conditions, SCOPES.items(), metrics, SELECTIONS.items()
        )
        if not (estimates and selection == "best") and not (condition == "new" and selection == "mean100")
    ]
    if protocol.get("gm_tests") == "whole" and "gm" in protocol["models"]:
        rows += [("gm", "local", "pooled", m, s, 0.7) for m, s in product(metrics, ("best", "last"))]
    rows += [("cost", "clean", "pooled", metric, "run", 1234567.0) for metric in COSTS]
    own = {key: getattr(cell, key, None) for key in CELL} | {"dataset": cell.run.dataset}
    numbers = {"std": 0.0123, "ci_low": 0.8765, "ci_high": 0.9123, "seeds": 3, "seed_list": "0 1 2", "round": "1 2 3"}
    numbers |= {"runs": " ".join([cell.run.id] * 3), "diverged": ""}
    columns = ["model", "condition", "scope", "metric", "selection", "mean"]
    return pd.DataFrame(rows, columns=columns).assign(**own, **numbers)


def _value(metric: str) -> float:
    return 0.9012 if metric == "accuracy" else 1.2345
