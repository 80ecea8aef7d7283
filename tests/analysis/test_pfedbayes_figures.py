"""pFedBayes' Figure 3: bars are means over seeds, and a line spans the lowest to the highest of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import BarContainer, ErrorbarContainer

from fedbayes.analysis.figures import pfedbayes
from pretended import Pretended, pretend


def seeds_apart(made: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 1 has twice the uncertainty of seed 0, seed 2 three times as much."""

    def read(*arguments: object) -> pd.DataFrame:
        rows = made.read_runs(*arguments)  # type: ignore[arg-type]
        return rows.assign(value=rows["value"] * (1 + rows["seed"]))

    monkeypatch.setattr(pfedbayes, "read_runs", read)


def test_the_spread_over_seeds_is_that_of_the_sum_of_both_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pretend(monkeypatch, "pfedbayes", "paper", None)
    seeds_apart(made, monkeypatch)
    drawn = pfedbayes.figure3(made.sources("figure3"))
    panel = drawn.figure.axes[0]
    bars = [container for container in panel.containers if isinstance(container, BarContainer)]
    (lines,) = [container for container in panel.containers if isinstance(container, ErrorbarContainer)]
    tops = np.array([bar.get_y() + bar.get_height() for bar in bars[-1]])
    spans = np.array([segment[:, 1] for segment in lines[2][0].get_segments()])
    assert spans == pytest.approx(np.stack([tops / 2, tops * 3 / 2], axis=1))
    assert "the line spans the lowest to the highest sum of any seed" in drawn.caption


def test_one_seed_has_no_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    made = pretend(monkeypatch, "pfedbayes", "smoke", None)
    drawn = pfedbayes.figure3(made.sources("figure3"))
    assert not any(isinstance(found, ErrorbarContainer) for found in drawn.figure.axes[0].containers)
    assert "lowest" not in drawn.caption
