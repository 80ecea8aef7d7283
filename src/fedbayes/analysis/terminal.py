"""The end of a reproduction in the terminal: what ran, beside what the papers print."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from fedbayes.analysis import display
from fedbayes.analysis.compare import printed_only, read_reproduction
from fedbayes.analysis.published import KEY, meaning_of
from fedbayes.analysis.verdict import NOT_IN_PAPER

# Columns and the widest each may get; longer text goes on below.
WIDTHS = {"method": 11, "setting": 12, "model": 5, "ours": 11, "published": 11, "diff": 6, "seeds": 5}
WIDTHS |= {"dataset": 8, "scale": 7, "verdict": 12}
RIGHT = {"ours", "published", "diff", "seeds"}
GAP = "  "


def terminal_table(reproductions: Sequence[Path]) -> str:
    """A plain table of all cells that ran, at most about 100 columns wide, and how much of the papers that is."""
    parts = [_paper(file) for file in reproductions]
    return "\n\n".join(parts) + "\n"


def _paper(reproduction: Path) -> str:
    rows = read_reproduction(reproduction)
    ran = rows[rows["status"] == "run"]
    cells = [_cells(row) for row in cast(list[dict[str, Any]], ran.to_dict("records")) if _is_short(row)]
    done, printed = (len(printed_only(part).drop_duplicates(KEY)) for part in (ran, rows))
    reasons = dict.fromkeys(filter(None, ran["why_no_verdict"]))
    lines = [rows["paper_name"].iloc[0], *_layout(cells)]
    lines += textwrap.wrap(f"No verdict where: {' | '.join(reasons)}.", 100) if reasons else []
    return "\n".join([*lines, f"{done} of {printed} printed numbers run."])


def _is_short(row: Mapping[str, Any]) -> bool:
    """Of what the paper does not print the terminal has accuracies and errors of estimates alone."""
    told = row["our_metric"] in ("accuracy", "error") and not meaning_of(row["metric"]).condition
    return row["why_no_verdict"] != NOT_IN_PAPER or told


def _cells(row: dict[str, Any]) -> dict[str, str]:
    preset = "" if row["preset"] == "paper" else f" ({row['preset']})"
    variant = f", {row['variant']}" if row["variant"] else ""
    return {
        "method": row["method"] + preset,
        "setting": display.setting(row) + variant,
        "model": display.model(row),
        "ours": (display.with_spread(row["ours"], row["std"], row) or "no value").replace(" ± ", "±"),
        "published": row["printed"].replace(" ± ", "±") or "-",
        "diff": display.number(row["difference"], row, sign="+"),
        "seeds": str(row["seeds"]),
        "dataset": row["ran_on"],
        "scale": row["scale"],
        "verdict": ", ".join(filter(None, [row["verdict"], display.diverged(row)])) or "-",
    }


def _layout(cells: Sequence[dict[str, str]]) -> list[str]:
    """Lines of text: heading, rule, and for each row as many lines as its longest wrapped cell needs."""
    if not cells:
        return ["nothing ran"]
    table = [[textwrap.wrap(row[name], limit) or [""] for name, limit in WIDTHS.items()] for row in cells]
    heads = [[[name] for name in WIDTHS], *table]
    widths = [max(len(line) for row in heads for line in row[column]) for column in range(len(WIDTHS))]
    lines = [line for row in heads for line in _lines(row, widths)]
    return [lines[0], GAP.join("-" * width for width in widths), *lines[1:]]


def _lines(row: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    height = max(len(cell) for cell in row)
    padded = [[*cell, *[""] * (height - len(cell))] for cell in row]
    aligned = [
        [line.rjust(width) if name in RIGHT else line.ljust(width) for line in cell]
        for name, cell, width in zip(WIDTHS, padded, widths, strict=True)
    ]
    return [GAP.join(cell[line] for cell in aligned).rstrip() for line in range(height)]
