r"""Tables as LaTeX for a paper's appendix: the table in the paper's shape, then what ran on pages turned on their side.

The result is a fragment for `\input`. All tables are `longtable`s, so that they go on to the next page; columns that do
not fit beside each other follow as another block (`grid.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from fedbayes.analysis.grid import Column, blocks, measure
from fedbayes.analysis.listing import Listing
from fedbayes.analysis.matrix import Entry, Matrix

NEEDS = r"""% A table written by fedbayes; do not edit. It needs
%   \usepackage{booktabs}   rules: Debian's texlive-latex-recommended
%   \usepackage{longtable}  tables over several pages: texlive-latex-base
%   \usepackage{pdflscape}  pages on their side: texlive-latex-recommended
% and a text of at least 345 x 535 points, as `article` has it at its usual size."""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "×": r"$\times$",
    "–": "--",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
}

# The text of an upright page and of one on its side, in points, and the width of a digit of each size.
UPRIGHT, TURNED = 345.0, 535.0
DIGITS = {r"\scriptsize": 4.3, r"\tiny": 3.6}
TABCOLSEP = 2.5  # on either side of a column, in points


def escape(text: str) -> str:
    """Text that LaTeX prints as it stands; letters beyond Latin-1 become `?` rather than stop the compilation."""
    return "".join(SPECIAL.get(letter, letter if ord(letter) < 256 else "?") for letter in text)


def fragment(
    heading: str,
    note: str,
    table: Matrix,
    listing: Listing | None,
    ran: Sequence[dict[str, str]],
    keys: Sequence[str],
) -> str:
    """The whole file: comment, table, doubts, divergences, what ran.

    Args:
        heading: what the table is.
        note: how to read it.
        table: the table in the paper's shape.
        listing: the same setting by setting, shown in its place where there is one.
        ran: rows of the table of what ran, all with the same columns.
        keys: columns of `ran` that say which row it is.
    """
    # \sloppy: names with slashes and numbers cannot be broken, and would stick out of the text.
    parts = [NEEDS, rf"{{\sloppy\paragraph{{{escape(heading)}}} {escape(note)}\par}}"]
    parts += _listing(listing) if listing else _matrix(table)
    marked = [f"† {doubt}" for doubt in table.doubts] + [f"‡ {cell}" for cell in table.divergences]
    parts += [rf"{{\noindent\sloppy\footnotesize {escape(text)}\par}}" for text in marked]
    parts += _ran(ran, keys) if ran else [r"\noindent Nothing of this table ran at this scale."]
    return "\n\n".join(parts) + "\n"


def _matrix(table: Matrix) -> list[str]:
    """A block for each dataset, several where its settings do not fit beside each other."""
    keys = [
        Column("Method", [line.method if line.method_span else "" for line in table.lines], most=70),
        Column("Model", [line.model if line.span else "" for line in table.lines], most=60),
        Column("Source", [line.source for line in table.lines], most=70),
    ]
    rules = [bool(line.method_span) for line in table.lines]
    parts, first = [], 0
    for dataset, width in table.groups:
        columns = [
            _numbers(table.columns[at][1], [line.entries[at] for line in table.lines], dataset)
            for at in range(first, first + width)
        ]
        parts += _tables(keys, columns, rules, r"\scriptsize", UPRIGHT)
        first += width
    return parts


def _listing(listing: Listing) -> list[str]:
    """A row for each setting and method."""
    items = listing.items
    keys = [
        Column(listing.heads[0], [item.dataset if item.span else "" for item in items], most=50),
        Column(listing.heads[1], [item.setting if item.setting_span else "" for item in items], most=95),
        Column(listing.heads[2], [item.method for item in items], most=80),
    ]
    kinds = [kind for kind, width in listing.groups for _ in range(width)]
    columns = [
        _numbers(source, [item.entries[at] for item in items], kind)
        for at, (kind, source) in enumerate(zip(kinds, listing.sources, strict=True))
    ]
    return _tables(keys, columns, [bool(item.setting_span) for item in items], r"\scriptsize", UPRIGHT)


def _ran(ran: Sequence[dict[str, str]], keys: Sequence[str]) -> list[str]:
    """Everything that is told of each row of what ran, on pages on their side."""
    columns = [Column(name, [row[name] for row in ran], most=75) for name in ran[0]]
    heads = [column for column in columns if column.head in keys]
    others = [column for column in columns if column.head not in keys]
    tables = _tables(heads, others, [False] * len(ran), r"\tiny", TURNED)
    return [r"\begin{landscape}", *tables, r"\end{landscape}"]


@dataclass(frozen=True)
class _Numbers(Column):
    """A column of numbers, set to the right as its entries are marked."""

    entries: Sequence[Entry] = ()


def _numbers(head: str, entries: Sequence[Entry], group: str) -> Column:
    # The other selection of rounds stands below, in smaller letters.
    texts = [max(entry.text + "†" * entry.doubtful, entry.beside, key=measure) for entry in entries]
    return _Numbers(head, texts, bold=any(entry.best for entry in entries), group=group, entries=entries)


def _tables(
    keys: Sequence[Column], columns: Sequence[Column], rules: Sequence[bool], size: str, room: float
) -> list[str]:
    """One `longtable` for each block of columns; rows with a rule have some room above."""
    found = blocks(keys, columns, room, DIGITS[size], 2 * TABCOLSEP)
    return [_table(keys, block, rules, size) for block in found]


def _table(keys: Sequence[Column], block: Sequence[Column], rules: Sequence[bool], size: str) -> str:
    columns = [*keys, *block]
    widths = [column.width(DIGITS[size]) for column in columns]
    layout = "".join(f"p{{{width:.1f}pt}}" for width in widths)
    rows = [" & ".join(_cell(column, at) for column in columns) for at in range(len(rules))]
    spaces = [r"\addlinespace[2pt] " if rule and at else "" for at, rule in enumerate(rules)]
    lines = [
        rf"{{{size}\setlength{{\tabcolsep}}{{{TABCOLSEP}pt}}\begin{{longtable}}{{{layout}}}",
        r"\toprule",
        *_groups(columns, widths),
        " & ".join(_side(column) + escape(column.head) for column in columns) + r" \tabularnewline",
        r"\midrule \endhead",
        r"\bottomrule \endfoot",
        # \tabularnewline: \raggedright gives the usual \\ another meaning.
        *(rf"{space}{row} \tabularnewline" for space, row in zip(spaces, rows, strict=True)),
        r"\end{longtable}}",
    ]
    return "\n".join(lines)


def _groups(columns: Sequence[Column], widths: Sequence[float]) -> list[str]:
    """The line of headings above groups of columns, as wide as these, if there are any."""
    if not any(column.group for column in columns):
        return []
    cells, at = [], 0
    for group, members in groupby(columns, key=lambda column: column.group):
        count = len(list(members))
        width = sum(widths[at : at + count]) + 2 * TABCOLSEP * (count - 1)
        cells.append(rf"\multicolumn{{{count}}}{{p{{{width:.1f}pt}}}}{{\raggedright {escape(group)}}}")
        at += count
    return [" & ".join(cells) + r" \tabularnewline"]


def _side(column: Column) -> str:
    return r"\raggedleft " if isinstance(column, _Numbers) else r"\raggedright "


def _cell(column: Column, at: int) -> str:
    if isinstance(column, _Numbers):
        return _side(column) + _entry(column.entries[at])
    return _side(column) + escape(column.cells[at])


def _entry(entry: Entry) -> str:
    text = rf"\textbf{{{escape(entry.text)}}}" if entry.best else escape(entry.text)
    text = rf"\textit{{{text}}}" if entry.missing else text
    text += escape("†") if entry.doubtful else ""
    return text + (rf"\newline{{\tiny {escape(entry.beside)}}}" if entry.beside else "")
