"""How a curve is told from the others, in print without colour as well: a method has one marker and colour everywhere.

The marker's shape is the method's, its filling is the preset's and the model's (more than half filled means a personal
model, empty or half filled from the other side a global one), and the line's dashes are the model's. So two curves of a
figure share neither colour and marker nor marker and dashes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

# Okabe and Ito's colours, told apart by the colour-blind, and a dark red.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00", "#7f7f7f", "#882255")
BLUE, VERMILION, GREEN, PINK, BLACK, SKY, ORANGE, GREY, WINE = COLOURS
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*", ">", "<", "h", "d", "p")
SIZES = {"*": 9.5, "D": 5.4, "P": 7.0, "X": 7.0}  # points; shapes of one size do not look so
SIZE = 6.2

# Methods that no figure shows together may share a shape or a colour.
METHODS = {
    "FedAvg": ("o", BLUE),
    "Per-FedAvg": ("s", GREEN),
    "pFedMe": ("^", ORANGE),
    "pFedBayes": ("D", VERMILION),
    "FedProx": ("v", SKY),
    "HeurFedAMP": ("P", PINK),
    "Local": ("X", GREY),
    "BNFed": ("*", WINE),
    "pFedGP": (">", BLACK),
    "FedPer": ("v", SKY),
    "LG-FedAvg": ("P", PINK),
    "FedRep": ("<", GREY),
    "FedSOUL": ("*", WINE),
    "BPFed": ("X", BLACK),
    "FedUAB-1": ("<", PINK),
    "FedUAB-2": (">", WINE),
    "FedUAB-5": ("*", GREEN),
    "MetaVD": ("P", PINK),
    "LR-BPFL": ("*", WINE),
    "FedBE": ("v", SKY),
    "DITTO": ("P", PINK),
    "Self-FL": ("*", WINE),
    "Self-FL (Algorithm 1)": ("*", WINE),
    "Augmented Self-FL": ("X", BLACK),
    "Self-FL (Algorithm 2)": ("X", BLACK),
}

# How much of the marker is filled, by model and by the place of the preset among those of the method.
FILLINGS = {"pm": ("full", "left", "top"), "gm": ("empty", "right", "bottom")}
Dashes = str | tuple[int, tuple[int, int]]
DASHES: dict[str, Dashes] = {"pm": "-", "gm": (0, (4, 2))}


class Look(NamedTuple):
    """A curve's colour, the shape of its markers, and how they are filled."""

    colour: str
    shape: str
    filling: str = "full"

    def of(self, model: str, preset: int = 0) -> Look:
        """The same method's look for a model and for one of its presets, counted from 0."""
        fillings = FILLINGS[model]
        return self._replace(filling=fillings[preset % len(fillings)])

    @property
    def style(self) -> dict[str, Any]:
        """What matplotlib draws such a line with."""
        half = self.filling in ("left", "right", "top", "bottom")
        return {
            "color": self.colour,
            "marker": self.shape,
            "markersize": SIZES.get(self.shape, SIZE),
            "markeredgewidth": 0.8,
            "fillstyle": self.filling if half else "full",
            "markerfacecolor": "white" if self.filling == "empty" else self.colour,
            "markerfacecoloralt": "white",
        }


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """A look for each method of a figure: its own, or a shape and a colour that no other one of the figure has."""
    names = list(dict.fromkeys(methods))
    taken = {name: METHODS[name] for name in names if name in METHODS}
    for name in names:
        if name not in taken:
            used, worn = ({pair[part] for pair in taken.values()} for part in (0, 1))
            taken[name] = _first_free(SHAPES, used, len(taken)), _first_free(COLOURS, worn, len(taken))
    return {name: Look(colour, shape) for name, (shape, colour) in taken.items()}


def _first_free(every: tuple[str, ...], used: set[str], place: int) -> str:
    """The first that is not used; one after another again where all are."""
    return next((one for one in every if one not in used), every[place % len(every)])
