"""What all pictures share: their style, and files that carry their caption and are the same bytes each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedbayes.io import write_with

SOFT = "#555555"  # words beside the picture
LINE = "#e3e1db"  # grids
ROOM_ABOVE = 1.06
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "fedbayes",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "savefig.facecolor": "white",
}


@dataclass(frozen=True)
class Drawn:
    """A figure and what it shows, in words."""

    figure: Figure
    caption: str


def from_zero(panel: Axes) -> None:
    """Let the upright axis start at zero, with room for markers above the highest value; after all is drawn."""
    panel.set_ylim(0, ROOM_ABOVE * panel.get_ylim()[1])


def write_picture(draw: Callable[[], Drawn], svg: Path, png: Path) -> None:
    """Draw in the common style; write SVG and PNG, both with the caption as the description in their metadata.

    Args:
        draw: makes the figure.
        svg: the vector image to write.
        png: the pixel image to write.
    """
    with mpl.rc_context(STYLE):
        drawn = draw()
        for file, metadata in ((svg, {"Date": None}), (png, {})):
            described = metadata | {"Description": drawn.caption}
            write_with(file, partial(drawn.figure.savefig, format=file.suffix[1:], dpi=160, metadata=described))


def caption_of(svg: Path) -> str:
    """The caption that `write_picture` wrote into an SVG file."""
    found = ElementTree.parse(svg).find(".//{http://purl.org/dc/elements/1.1/}description")
    return (found.text or "") if found is not None else ""
