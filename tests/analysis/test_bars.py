"""Bars: heights, spreads and what did not run."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.figure import Figure

from fedbayes.analysis.figures.bars import draw_bars

COLUMNS = ["group", "series", "mean", "low", "high"]


def test_a_bar_for_each_series_and_a_mark_for_what_did_not_run() -> None:
    values = pd.DataFrame(
        [("small", "A", 90.0, 89.0, 92.0), ("large", "A", 95.0, 95.0, 95.0), ("small", "B", 80.0, 79.5, 80.5)],
        columns=COLUMNS,
    )
    panel = Figure().subplots()
    draw_bars(panel, values)
    assert [bar.get_height() for bar in panel.patches] == [90.0, 95.0, 80.0, 0.0]
    assert [text.get_text() for text in panel.texts] == ["90.0", "95.0", "80.0", "not run"]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["small", "large"]
    spans = [segment[:, 1].tolist() for lines in panel.collections for segment in lines.get_segments()]
    assert spans[:2] == [[89.0, 92.0], [95.0, 95.0]] and spans[2] == pytest.approx([79.5, 80.5])
    # Equal values may have a mean that is not quite theirs.
    draw_bars(Figure().subplots(), pd.DataFrame([("small", "A", 0.1 + 0.2, 0.3, 0.3)], columns=COLUMNS))
    draw_bars(Figure().subplots(), pd.DataFrame([("small", "A", 0.3, 0.1 + 0.2, 0.1 + 0.2)], columns=COLUMNS))
    first, second = panel.patches[0], panel.patches[2]
    assert first.get_x() + first.get_width() == pytest.approx(second.get_x()), "series stand side by side"
    assert (first.get_hatch() or "") != (second.get_hatch() or "")
