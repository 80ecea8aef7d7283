"""Frozen rows whose runs no plan has any more: a setting changed since, and freezing keeps what it does not renew."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedbayes.analysis import display
from fedbayes.plan import load_plan


def planned_runs(paper: str, scale: str, root: Path) -> frozenset[str]:
    """Names of all runs of a paper at a scale; none of a paper whose file is gone."""
    if not (root / "config/papers" / f"{paper}.yaml").exists():
        return frozenset()
    return frozenset(load_plan({"scale": scale, "papers": [paper]}, root).runs)


def unplanned(frozen: pd.DataFrame, root: Path) -> pd.DataFrame:
    """The rows of which at least one run is not in today's plan at the row's scale.

    Args:
        frozen: a frozen file as text.
        root: the folder that holds `config/`.
    """
    places = list(zip(frozen["paper"], frozen["scale"], strict=True))
    plans = {place: planned_runs(*place, root) for place in dict.fromkeys(places)}
    gone = [not plans[place].issuperset(runs.split()) for place, runs in zip(places, frozen["runs"], strict=True)]
    return frozen.loc[gone]


def warning(frozen: pd.DataFrame, file: Path, root: Path) -> str:
    """One line on such rows of a file, with their number at each scale; empty if there are none."""
    found = unplanned(frozen, root)
    if found.empty:
        return ""
    scales = ", ".join(f"{number} at scale {scale}" for scale, number in found["scale"].value_counts().items())
    return (
        f"fedbayes: warning: {display.count(len(found), 'row')} of {file} ({scales}) belong to runs that today's plan "
        "does not have: the settings or seeds have changed since; run them again, or delete the rows"
    )
