"""Pictures of a client split: who holds how many samples of which label, and how much each client has in all.

A heat map of the training samples, clients downwards and labels across; beside it, in the same rows, what each client
trains, validates and is tested on. The same split gives the same bytes.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from fedbayes.analysis.client_splits import ClientSplit, Counts, Words, caption, facts, read_client_split
from fedbayes.analysis.drawing import LINE, SOFT, Drawn, write_picture

# Light to dark, and never so light that it could be taken for the white of no sample at all.
TINTS = LinearSegmentedColormap.from_list("tints", mpl.colormaps["Blues"](np.linspace(0.2, 1.0, 64))).with_extremes(
    under="white"
)
# From dark to light, so that they differ in print without colour.
COLOURS = {"training": "#08519c", "validation": "#6baed6", "test": "#d5d2ca"}
NEWCOMER = "#d55e00"
FRAME = "#8b877c"
SKEWED = 10  # the largest count is this many times the median one: tints follow the logarithm

# Sizes in inches. Rows and columns of many clients and labels get narrower, so that a page holds them.
ROW, LEAST_HEIGHT, MOST_HEIGHT = 0.24, 1.4, 7.5
COLUMN, LEAST_WIDTH, MOST_WIDTH = 0.44, 0.7, 4.8
BARS, MOST_BARS, PAGE = 1.9, 3.4, 8.2
SIDES, BELOW = 1.5, 0.9  # axis labels and colour bar; axis labels and legend
TITLE_LINE, SMALL_LINE = 0.18, 0.14
BAR_OF_COLOURS = 0.13
DIGIT = 0.062  # width of a digit in a cell
APART = 0.2  # least distance of two tick labels
THINNEST = 0.04  # mark of a newcomer
TEXT_HEIGHT = 0.19  # least height of a row that holds numbers
LETTERS_AN_INCH = 14

STEPS = (1, 2, 5, 10)
THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")


def split_picture(split_file: Path, dataset_folder: Path, words: Words, svg: Path, png: Path) -> None:
    """Write the picture of one split as SVG and PNG, with its caption in both.

    Args:
        split_file: what `partition` made.
        dataset_folder: what `fetch` made; only labels and manifest are read.
        words: what the picture says.
        svg: the vector image to write.
        png: the pixel image to write.
    """
    split = read_client_split(split_file, dataset_folder)
    write_picture(partial(draw_split, split, words), svg, png)


def draw_split(split: ClientSplit, words: Words) -> Drawn:
    """The heat map, the bars beside it, and what both show."""
    clients, labels = split.counts.shape
    height = min(max(ROW * clients, LEAST_HEIGHT), MOST_HEIGHT)
    width = min(max(COLUMN * labels, LEAST_WIDTH), MOST_WIDTH)
    beside = min(max(PAGE - SIDES - width, BARS), MOST_BARS)
    drawn = _page(split, words, SIDES + width + beside, BELOW + height)
    heat, bars = drawn.subplots(1, 2, sharey=True, width_ratios=[width, beside])
    image = _draw_counts(heat, split.counts, width / labels, height / clients)
    _draw_sizes(bars, split.sizes, gap=0.2 if height / clients > 0.1 else 0.0)
    _mark_newcomers(heat, split.newcomers, width, height / clients)
    _colour_bar(drawn, image, [heat, bars], height)
    _legend(drawn, split)
    return Drawn(drawn, caption(split, words))


def _page(split: ClientSplit, words: Words, width: float, height: float) -> Figure:
    """A figure with room for panels of this size below the first setting's title and, small and grey, what ran."""
    letters = int(LETTERS_AN_INCH * width)
    title = textwrap.wrap(words.titles[0], int(0.8 * letters))
    below = [line for fact in facts(split, words) for line in textwrap.wrap(fact, letters)]
    head = TITLE_LINE * len(title)
    room = head + SMALL_LINE * len(below) + 0.15
    whole = room + height
    drawn = Figure(figsize=(width, whole), layout=ConstrainedLayoutEngine(rect=(0, 0, 1, height / whole)))
    drawn.text(0.01, 1 - 0.06 / whole, "\n".join(title), va="top", fontsize=10)
    drawn.text(0.01, 1 - (0.08 + head) / whole, "\n".join(below), va="top", fontsize=8, color=SOFT)
    return drawn


def _draw_counts(panel: Axes, counts: Counts, width: float, height: float) -> AxesImage:
    """The heat map; cells of the given size in inches hold their number where it fits."""
    # `none`: a vector image keeps one pixel a cell, however large it is shown.
    image = panel.imshow(counts, cmap=TINTS, norm=_norm(counts), aspect="auto", interpolation="none")
    clients, labels = counts.shape
    panel.grid(False)
    panel.spines[:].set(visible=True, color=FRAME, linewidth=0.6)
    panel.set_xticks(ticks(labels, width))
    panel.set_yticks(ticks(clients, height))
    panel.set_xlabel("label")
    panel.set_ylabel("client")
    if min(width, height) > 0.1:
        panel.hlines(np.arange(1, clients) - 0.5, -0.5, labels - 0.5, color=LINE, linewidth=0.6)
        panel.vlines(np.arange(1, labels) - 0.5, -0.5, clients - 0.5, color=LINE, linewidth=0.6)
    if height >= TEXT_HEIGHT and width >= DIGIT * (len(str(counts.max())) + 1):
        light = lightness(image.to_rgba(counts)) > 0.55
        for client, label in zip(*np.nonzero(counts), strict=True):
            ink = "black" if light[client, label] else "white"
            amount = str(counts[client, label])
            panel.text(label, client, amount, ha="center", va="center", fontsize=7, color=ink)
    return image


def ticks(amount: int, inches: float) -> list[int]:
    """Every first, second, fifth, tenth ... number from 0 on, so that the labels of rows of this size do not touch."""
    steps = (digit * 10**power for power in itertools.count() for digit in STEPS[:-1])
    return list(range(0, amount, next(step for step in steps if step * inches >= APART)))


def _norm(counts: Counts) -> Normalize:
    """Tints in proportion to counts, or to their logarithm where a few are far above the others. 0 has no tint."""
    held = counts[counts > 0]
    most = max(1, int(counts.max()))
    skewed = len(held) > 0 and most > SKEWED * float(np.median(held))
    return (LogNorm if skewed else Normalize)(vmin=0.5, vmax=most)


def lightness(colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """How light colours (..., red, green, blue, opacity) look in print without colour, from 0 to 1 (Rec. 709)."""
    return np.asarray(colours[..., :3] @ np.array([0.2126, 0.7152, 0.0722]))


def _draw_sizes(panel: Axes, sizes: Mapping[str, Counts], gap: float) -> None:
    """A bar for each client, its parts one behind the other; one outline a part, so that 1,000 clients are quick."""
    base = np.zeros_like(sizes["training"])
    for part, size in sizes.items():
        ends, ink = base + size, COLOURS[part]
        edges, inner, outer = _outline(base, ends, gap)
        panel.stairs(outer, edges, baseline=inner, orientation="horizontal", fill=True, color=ink, linewidth=0)
        base = ends
    panel.set_xlim(0, 1.03 * base.max())
    panel.set_xlabel("samples of the client")
    panel.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=STEPS))
    panel.xaxis.set_major_formatter(THOUSANDS)
    panel.tick_params(axis="y", length=0)
    panel.grid(False, axis="y")
    panel.spines["left"].set_visible(False)


def _outline(base: Counts, ends: Counts, gap: float) -> tuple[NDArray[np.float64], Counts, Counts]:
    """Edges between rows and the two sides of the bars; rows of nothing between them where there is a gap."""
    borders = np.arange(len(base) + 1, dtype=np.float64) - 0.5
    if not gap:
        return borders, base, ends
    edges = np.stack([borders[:-1] + gap / 2, borders[1:] - gap / 2], axis=1).ravel()
    inner, outer = (np.stack([side, np.zeros_like(side)], axis=1).ravel()[:-1] for side in (base, ends))
    return edges, inner, outer


def _mark_newcomers(panel: Axes, newcomers: Sequence[int], width: float, row: float) -> None:
    """A strip along the client axis beside every newcomer, seen also where rows are thin and tick labels thinned.

    Args:
        panel: the heat map.
        newcomers: clients held out of training.
        width: of the panel, in inches.
        row: height of a client, in inches.
    """
    if not newcomers:
        return
    panel.tick_params(axis="y", length=0, pad=10)
    rows = np.sort(newcomers)
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
        high = max(len(run), THINNEST / row)
        corner = (-0.1 / width, float(run.mean()) - high / 2)
        place = panel.get_yaxis_transform()
        panel.add_patch(
            Rectangle(corner, 0.07 / width, high, transform=place, color=NEWCOMER, clip_on=False, linewidth=0)
        )


def _colour_bar(drawn: Figure, image: AxesImage, panels: list[Axes], height: float) -> None:
    logarithmic, (_, most) = isinstance(image.norm, LogNorm), image.get_clim()
    bar = drawn.colorbar(
        image,
        ax=panels,
        extend="min",  # the white of no sample
        extendfrac=0.12 / height,
        aspect=height / BAR_OF_COLOURS,
        pad=0.02,
        ticks=_decades(int(most or 1)) if logarithmic else MaxNLocator(6, integer=True, steps=STEPS),
        format=THOUSANDS,
        label="training samples" + (", log scale" if logarithmic else "") + " (white: none)",
    )
    bar.ax.minorticks_off()
    bar.ax.grid(False)
    bar.outline.set(edgecolor=FRAME, linewidth=0.6)


def _decades(most: int) -> list[int]:
    """1, 2, 5, 10, ... up to the largest count; powers of ten alone where these would be too many."""
    powers = [10**power for power in range(len(str(most)))]
    digits = STEPS[:-1] if len(powers) < 4 else STEPS[:1]
    return [digit * power for power in powers for digit in digits if digit * power <= most]


def _legend(drawn: Figure, split: ClientSplit) -> None:
    """The parts there are, and newcomers where there are any."""
    found = [Patch(color=COLOURS[part], label=part) for part in split.sizes]
    if split.newcomers:
        found.append(Patch(color=NEWCOMER, label="newcomer, held out of training"))
    drawn.legend(handles=found, loc="outside lower left", ncols=len(found), handlelength=1.2, handleheight=1.0)
