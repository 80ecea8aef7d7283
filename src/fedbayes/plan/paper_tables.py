"""Tables and figures of a paper as its cells fill them: which are made, under which names, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from fedbayes.config import OWN_TABLE, Paper
from fedbayes.plan.cell import Cell


def slug(name: str) -> str:
    """The file name of a table or figure: `Table1` and `Table 1` give `table1`, `ours-ablations` stays what it is."""
    return re.sub(r"[^a-z0-9-]", "", name.lower())


def own_table(paper: Paper, experiment: str) -> str:
    """File name of the table of an experiment whose numbers the paper does not print.

    Empty where it prints them, and for an experiment that only serves others, as what their numbers are relative to.
    """
    serving = {other.baseline.experiment for other in paper.experiments.values() if other.baseline}
    if paper.experiments[experiment].published_table is not None or experiment in serving:
        return ""
    return OWN_TABLE + re.sub(r"[^a-z0-9]+", "-", experiment.lower()).strip("-")


def names_shown(paper: Paper, cells: Iterable[Cell], kind: str) -> list[str]:
    """File names of the tables (`Table 1` -> `table1`) or figures a paper's experiments make, in its own order.

    Tables that the paper does not print follow those it prints: of all experiments that have one and run.
    """
    own = dict.fromkeys(cell.own_table for cell in cells if cell.own_table and kind == "Table")
    names = [name for experiment in paper.experiments.values() for name in experiment.shows]
    numbers = [name.removeprefix(f"{kind} ") for name in names if name.startswith(kind)]
    # Figure 10 comes after Figure 9; Roman numbers up to III are in the order of their letters.
    ordered = sorted(numbers, key=lambda number: (int(number) if number.isdigit() else 0, number))
    return [slug(kind + number) for number in ordered] + list(own)


def rows_left_out(paper: Paper, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """What the paper's file has and these cells do not run: a row for each setting, method and printed number.

    `cells` of a row counts presets and seeds; the columns `published_...` are those of a cell's row.
    """
    seeds = len({cell.seed for cell in cells})
    ran = {(cell.experiment, cell.setting, cell.method, cell.preset) for cell in cells}
    return [
        {
            "experiment": experiment.title,
            "setting": setting.title,
            "method": label,
            "cells": len(missing) * seeds,
            "published_table": experiment.published_table or "",
            "published_dataset": place.dataset,
            "published_setting": place.setting,
        }
        for key, experiment in paper.experiments.items()
        for name, setting in experiment.settings.items()
        for label, entry in experiment.methods.items()
        if (setting.methods is None or label in setting.methods)
        and (missing := [preset for preset in entry.presets if (key, name, label, preset) not in ran])
        for place in setting.places()
    ]
