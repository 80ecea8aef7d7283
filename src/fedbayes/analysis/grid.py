r"""Columns of text that fit a printed page: how wide each has to be, and which of them go side by side.

LaTeX measures nothing before it prints, so widths are estimated from the letters, generously: a word is never wider
than its estimate. Columns that would run off the page go into another block of the same rows, headed by the same keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Widths of a text in digits of its size: capitals and wide letters, marks that take little room, and all others.
WIDE_LETTERS = re.compile(r"[A-Zmw%&@±−×†‡]")
NARROW_LETTERS = re.compile(r"[ .,:;'|!()ijlt]")
WIDE, NARROW = 1.8, 0.65
# Between words, and after a hyphen, a line may end.
BREAKS = re.compile(r"\s+|(?<=-)")


@dataclass(frozen=True)
class Column:
    """One column: its heading, the text of each row, and how it is set.

    Attributes:
        head: its heading, which may take several lines.
        cells: the text of each row.
        most: the widest it may get, in points; longer text takes several lines. None where no text may be broken.
        bold: whether a cell may be bold, which is wider.
        group: a heading above it and its neighbours of the same group.
    """

    head: str
    cells: Sequence[str]
    most: float | None = None
    bold: bool = False
    group: str = ""

    def width(self, digit: float) -> float:
        """Its width in points where a digit has that of `digit`."""
        factor = digit * (1.2 if self.bold else 1.0)
        own = max((measure(text) for text in self.cells), default=0.0) * factor
        wanted = own if self.most is None else min(own, self.most)
        texts = [self.head] if self.most is None else [self.head, *self.cells]
        words = [word for text in texts for word in BREAKS.split(text)]
        return max(wanted, max(map(measure, words)) * factor, digit)


def measure(text: str) -> float:
    """The width of a text in digits, generously."""
    wide, narrow = len(WIDE_LETTERS.findall(text)), len(NARROW_LETTERS.findall(text))
    return len(text) + (WIDE - 1) * wide - (1 - NARROW) * narrow


def blocks(
    keys: Sequence[Column], columns: Sequence[Column], room: float, digit: float, gap: float
) -> list[list[Column]]:
    """The columns in their order, as many side by side as fit beside the keys, as evenly as that allows.

    Args:
        keys: columns that stand at the left of every block.
        columns: all others.
        room: the width of the text in points.
        digit: the width of a digit in points.
        gap: what a column takes beside its text.
    """
    left = room - sum(key.width(digit) + gap for key in keys)
    needed = len(_filled(columns, left, digit, gap))
    # The narrowest page that needs no more blocks leaves none of them nearly empty.
    low, high = 0.0, left
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_filled(columns, middle, digit, gap)) <= needed else (middle, high)
    return _filled(columns, high, digit, gap)


def _filled(columns: Sequence[Column], room: float, digit: float, gap: float) -> list[list[Column]]:
    found: list[list[Column]] = []
    left = 0.0
    for column in columns:
        width = column.width(digit) + gap
        if not found or width > left:
            found.append([])
            left = room
        found[-1].append(column)
        left -= width
    return found
