"""Frozen rows whose runs no plan has any more: a setting changed since, and freezing keeps what it does not renew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedbayes.analysis import display
from fedbayes.plan import load_plan


def planned_runs(paper: str, scale: str, seeds: Sequence[int], root: Path) -> frozenset[str]:
    """Names of all runs of a paper at a scale, with some seeds; none of a paper whose file is gone."""
    if not (root / "config/papers" / f"{paper}.yaml").exists():
        return frozenset()
    return frozenset(load_plan({"scale": scale, "papers": [paper], "seeds": list(seeds)}, root).runs)


def unplanned(frozen: pd.DataFrame, root: Path) -> pd.DataFrame:
    """The rows of which at least one run is not in today's plan at the row's scale; which seeds ran is the user's.

    Args:
        frozen: a frozen file as text.
        root: the folder that holds `config/`.
    """
    found = [frozen.iloc[:0]]
    for (paper, scale), rows in frozen.groupby(["paper", "scale"], sort=False):
        seeds = sorted({int(seed) for text in rows["seed_list"] for seed in text.split()})
        planned = planned_runs(str(paper), str(scale), seeds, root)
        found.append(rows[[not planned.issuperset(runs.split()) for runs in rows["runs"]]])
    return pd.concat(found).sort_index()


def warning(frozen: pd.DataFrame, file: Path, root: Path) -> str:
    """One line on such rows of a file, with their number at each scale; empty if there are none."""
    found = unplanned(frozen, root)
    if found.empty:
        return ""
    scales = ", ".join(f"{number} at scale {scale}" for scale, number in found["scale"].value_counts().items())
    return (
        f"fedbayes: warning: {display.count(len(found), 'row')} of {file} ({scales}) belong to runs that today's plan "
        "does not have: the settings have changed since; run them again, or delete the rows"
    )
