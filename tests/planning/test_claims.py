"""Every printed number belongs to a cell that is planned at scale `paper`, or to a table that is named here."""

from __future__ import annotations

import csv

from artefacts import ROOT
from fedbayes.plan import load_plan

PAPERS = ["pfedbayes", "selffl", "bpfed", "lrbpfl", "feduab"]
# Printed numbers of tables that no experiment plans yet.
NOT_YET = {}


def test_every_printed_number_is_planned_or_its_table_is_listed() -> None:
    plan = load_plan({"scale": "paper", "papers": PAPERS}, ROOT)
    planned = set()
    for cell in plan.cells:
        row = cell.row()
        place = (row["published_table"], row["published_dataset"], row["published_setting"])
        planned.add((plan.papers[cell.paper].name, *place, cell.method))
    left: dict[tuple[str, str], int] = {}
    with (ROOT / "config/published.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if tuple(row[key] for key in ("paper", "table", "dataset", "setting", "method")) not in planned:
                table = (row["paper"], row["table"])
                left[table] = left.get(table, 0) + 1
    assert left == NOT_YET


def test_smoke_stays_small() -> None:
    assert len(load_plan({"scale": "smoke", "papers": PAPERS}, ROOT).runs) <= 85
