"""What curves look like: no two of a figure alike, in print without colour either, and a method the same everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedbayes.analysis.figures.looks import FILLINGS, SHAPES, looks
from pretended import KEYS, pretend

# Figures without curves: bars, reliability diagrams, histograms, shades.
NO_CURVES = {"bpfed": (6, 7, 8, 9), "lrbpfl": (1, 3, 5, 7), "pfedbayes": (3,), "selffl": (11,)}
CURVES = [key for key in KEYS if int(key.split("/figure")[1]) not in NO_CURVES.get(key.split("/")[0], ())]

Look = tuple[str, Any, Any]


def curves_of(drawn: Figure) -> dict[str, set[Look]]:
    """Colour, marker (its shape and filling) and dashes of every curve that the legend names."""
    found: dict[str, set[Look]] = {}
    for panel in drawn.axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            line = handle[0] if isinstance(handle, ErrorbarContainer) else handle
            assert isinstance(line, Line2D)
            inside = [to_hex(colour) for colour in (line.get_markerfacecolor(), line.get_markeredgecolor())]
            marker = (line.get_marker(), line.get_fillstyle(), inside[0] == inside[1])
            dashes = (line.get_linestyle(), line._unscaled_dash_pattern)
            found.setdefault(label, set()).add((to_hex(line.get_color()), marker, dashes))
    return found


@pytest.mark.parametrize("key", CURVES)
def test_no_two_curves_of_a_figure_look_alike_with_or_without_colour(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paper, name = key.split("/")
    curves = curves_of(pretend(monkeypatch, paper, "paper").draw(name).figure)
    assert len(curves) > 1
    assert [label for label, found in curves.items() if len(found) > 1] == [], "one look in every panel"
    found = [look for (look,) in curves.values()]
    assert len({(colour, marker) for colour, marker, _ in found}) == len(found), "by colour and marker"
    assert len({(marker, dashes) for _, marker, dashes in found}) == len(found), "without colour"


def test_a_method_looks_the_same_in_every_figure() -> None:
    first, second = looks(["FedAvg", "BPFed", "Mine"]), looks(["Another", "Mine", "BPFed", "FedAvg"])
    assert first["FedAvg"] == second["FedAvg"] and first["BPFed"] == second["BPFed"]
    for found in (first, second):
        assert (
            len({look.shape for look in found.values()}) == len({look.colour for look in found.values()}) == len(found)
        )


def test_more_methods_than_shapes_are_drawn_all_the_same() -> None:
    names = [f"method {number}" for number in range(len(SHAPES) + 2)]
    found = looks(names)
    assert list(found) == names and len({(look.shape, look.colour) for look in found.values()}) == len(names)


def test_presets_and_models_of_a_method_differ_in_filling() -> None:
    look = looks(["FedAvg"])["FedAvg"]
    every = [look.of(model, preset) for model in FILLINGS for preset in range(3)]
    styles = {(own.style["fillstyle"], own.style["markerfacecolor"]) for own in every}
    assert len(styles) == len(every) and {own.colour for own in every} == {look.colour}
