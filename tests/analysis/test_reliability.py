"""Reliability diagrams: bins by hand, and the same errors as the metrics have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from fedbayes.analysis.figures.reliability import bins, draw_histogram, draw_reliability, gaps
from fedbayes.bayes.calibration import calibration_gaps

# Two samples in (0.5, 0.75], one of them right; the one at 0.75 belongs there, not above; two in (0.75, 1], both right.
FOUR = pd.DataFrame({"confidence": [0.65, 0.75, 0.9, 1.0], "label": [1, 0, 2, 2], "predicted": [1, 1, 2, 2]})


def test_bins_by_hand() -> None:
    found = bins(FOUR, 4)
    assert found["samples"].tolist() == [0, 0, 2, 2]
    assert found["accuracy"][2:].tolist() == [0.5, 1.0] and found["confidence"][2:].tolist() == [0.7, 0.95]
    assert np.isnan(found["accuracy"][0])
    assert gaps(found) == pytest.approx((0.5 * 0.2 + 0.5 * 0.05, 0.2))


def test_the_errors_are_those_of_the_metrics() -> None:
    probs = torch.rand(500, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(1) ** 3
    probs /= probs.sum(1, keepdim=True)
    labels = torch.randint(5, (500,), generator=torch.Generator().manual_seed(1))
    distance, share = calibration_gaps(probs, labels, torch.zeros_like(labels), 1, 15)
    confidence, predicted = probs.max(1)
    table = pd.DataFrame({"confidence": confidence, "label": labels, "predicted": predicted})
    assert gaps(bins(table, 15)) == pytest.approx((float((share * distance).sum()), float(distance.max())))


def test_bars_are_the_accuracies_and_the_gaps() -> None:
    above, below = Figure().subplots(2, 1)
    draw_reliability(above, bins(FOUR, 4))
    draw_histogram(below, bins(FOUR, 4))
    heights = [bar.get_height() for bar in above.patches]
    assert heights == pytest.approx([0, 0, 0.5, 1.0, 0, 0, 0.2, 0.05])
    assert above.patches[6].get_y() == pytest.approx(0.5)  # the gap begins at the accuracy, below the confidence
    assert above.texts[0].get_text() == "ECE 12.5 %\nMCE 20.0 %"
    assert [bar.get_height() for bar in below.patches] == [0, 0, 50, 50]
