r"""Tables as LaTeX for a paper's appendix: the matrix as `tabular`, what ran as `longtable`.

The result is a fragment for `\input`; it needs the packages booktabs and longtable and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fedbayes.analysis.listing import Item, Listing
from fedbayes.analysis.matrix import Entry, Line, Matrix

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


def escape(text: str) -> str:
    """Text that LaTeX prints as it stands; letters beyond Latin-1 become `?` rather than stop the compilation."""
    return "".join(SPECIAL.get(letter, letter if ord(letter) < 256 else "?") for letter in text)


def fragment(
    heading: str,
    note: str,
    table: Matrix,
    listing: Listing | None,
    ran: Sequence[Mapping[str, str]],
    wide: Collection[str],
) -> str:
    """The whole file: comment, matrix, doubts, divergences, what ran.

    Args:
        heading: what the table is.
        note: how to read it.
        table: the table in the paper's shape.
        listing: the same setting by setting, shown in its place where there is one.
        ran: rows of the table of what ran, all with the same columns.
        wide: columns of `ran` that hold sentences.
    """
    comment = "% Needs \\usepackage{booktabs,longtable}; written by fedbayes, do not edit."
    parts = [comment, rf"\paragraph{{{escape(heading)}}} {escape(note)}"]
    parts.append(_listing(listing) if listing else _matrix(table))
    marked = [f"† {doubt}" for doubt in table.doubts] + [f"‡ {cell}" for cell in table.divergences]
    parts += [rf"\noindent{{\footnotesize {escape(text)}\par}}" for text in marked]
    parts.append(_long(ran, wide) if ran else r"\noindent Nothing of this table ran at this scale.")
    return "\n\n".join(parts) + "\n"


def _matrix(table: Matrix) -> str:
    """One `tabular` for each dataset, so that the width fits a page."""
    blocks, first = [], 0
    for dataset, width in table.groups:
        blocks.append(_block(table, dataset, range(first, first + width)))
        first += width
    return "\n\n".join(blocks)


def _block(table: Matrix, dataset: str, columns: range) -> str:
    settings = " & ".join(escape(table.columns[column][1]) for column in columns)
    lines = [
        rf"\begin{{center}}\footnotesize\begin{{tabular}}{{lll{'r' * len(columns)}}}",
        r"\toprule",
        rf"\multicolumn{{{3 + len(columns)}}}{{l}}{{{escape(dataset)}}} \\",
        rf"Method & Model & Source & {settings} \\",
        r"\midrule",
        *(_line(line, columns) for line in table.lines),
        r"\bottomrule",
        r"\end{tabular}\end{center}",
    ]
    return "\n".join(lines)


def _line(line: Line, columns: range) -> str:
    method = escape(line.method) if line.method_span else ""
    model = escape(line.model) if line.span else ""
    entries = [_entry(line.entries[column]) for column in columns]
    space = r"\addlinespace[2pt] " if line.method_span else ""
    return space + " & ".join([method, model, escape(line.source), *entries]) + r" \\"


def _entry(entry: Entry) -> str:
    text = rf"\textbf{{{escape(entry.text)}}}" if entry.best else escape(entry.text)
    text = rf"\textit{{{text}}}" if entry.missing else text
    return text + (escape("†") if entry.doubtful else "")


def _listing(listing: Listing) -> str:
    """One `longtable`, so that it may go on to the next page."""
    kinds = [rf"\multicolumn{{{width}}}{{c}}{{{escape(kind)}}}" for kind, width in listing.groups]
    sources = [rf"\raggedright {escape(source)}" for source in listing.sources]
    layout = "lp{3.2cm}l" + "p{1.4cm}" * len(listing.sources)
    lines = [
        rf"{{\scriptsize\setlength{{\tabcolsep}}{{3pt}}\begin{{longtable}}{{{layout}}}",
        rf"\toprule & & & {' & '.join(kinds)} \tabularnewline",
        rf"Dataset & Setting & Method & {' & '.join(sources)} \tabularnewline",
        r"\midrule \endhead",
        r"\bottomrule \endfoot",
        *map(_item, listing.items),
        r"\end{longtable}}",
    ]
    return "\n".join(lines)


def _item(item: Item) -> str:
    heads = [escape(item.dataset) if item.span else "", rf"\raggedright {escape(item.setting)}", escape(item.method)]
    return " & ".join([*heads, *(rf"\raggedright {_entry(entry)}" for entry in item.entries)]) + r" \tabularnewline"


def _long(ran: Sequence[Mapping[str, str]], wide: Collection[str]) -> str:
    columns = list(ran[0])
    layout = "".join(r"p{2cm}" if column in wide else "l" for column in columns)
    head = " & ".join(map(escape, columns)) + r" \tabularnewline"
    lines = [
        rf"{{\tiny\setlength{{\tabcolsep}}{{2pt}}\begin{{longtable}}{{{layout}}}",
        rf"\toprule {head} \midrule \endhead",
        r"\bottomrule \endfoot",
        *(_long_row(row, wide) for row in ran),
        r"\end{longtable}}",
    ]
    return "\n".join(lines)


def _long_row(row: Mapping[str, str], wide: Collection[str]) -> str:
    # \tabularnewline: \raggedright gives the usual \\ another meaning.
    cells = [(r"\raggedright " if column in wide else "") + escape(text) for column, text in row.items()]
    return " & ".join(cells) + r" \tabularnewline"
