"""Every printed number is claimed by exactly one cell of scale `paper`, or is listed here with a reason.

A *reading* of a printed number is a preset of its method and a variant of its setting: the text's and the code's, say.
Each reading of a number belongs to one setting of one experiment, which tests the model that the number is about.
Numbers printed twice (same place, same metric) share one cell.
"""

from __future__ import annotations

import csv
from collections import defaultdict

import pytest

from artefacts import ROOT
from fedbayes.analysis.published import meaning_of
from fedbayes.plan import Cell, Plan, load_plan

PAPERS = ["pfedbayes", "selffl", "bpfed", "lrbpfl", "feduab"]
PLACE = ("paper", "table", "dataset", "setting", "method")
# (paper, table, dataset, setting, method) of printed numbers that nothing can stand beside, and why.
NOT_REPRODUCIBLE: dict[tuple[str, ...], str] = {}

Claims = dict[tuple[str, ...], list[Cell]]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return load_plan({"scale": "paper", "papers": PAPERS, "seeds": [0]}, ROOT)


@pytest.fixture(scope="module")
def claims(plan: Plan) -> Claims:
    """Cells by the place of the printed numbers they claim."""
    found: Claims = defaultdict(list)
    for cell in plan.cells:
        place = (cell.published_table, cell.published_dataset, cell.published_setting, cell.method)
        found[plan.papers[cell.paper].name, *place].append(cell)
    return found


def printed() -> list[dict[str, str]]:
    with (ROOT / "config/published.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def place_of(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[key] for key in PLACE)


def can_fill(cell: Cell, metric: str) -> bool:
    """Whether a cell tests the model that a printed metric is about; costs are of no tested model."""
    model = meaning_of(metric).model
    return model not in ("pm", "gm") or model in cell.run.spec["protocol"]["models"]


def test_every_printed_number_is_claimed_or_listed_with_a_reason(claims: Claims) -> None:
    rows = printed()
    assert len(rows) == 883
    left = {
        place_of(row)
        for row in rows
        if not any(can_fill(cell, row["metric"]) for cell in claims.get(place_of(row), []))
    }
    assert left == set(NOT_REPRODUCIBLE) and all(NOT_REPRODUCIBLE.values())


def test_each_reading_of_a_number_has_one_cell(claims: Claims) -> None:
    twice = []
    for place in set(map(place_of, printed())):
        homes: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        for cell in claims.get(place, []):
            homes[cell.variant, cell.preset].add((cell.experiment, cell.setting))
        twice += [(place, reading, sorted(found)) for reading, found in homes.items() if len(found) > 1]
    assert twice == []


def test_a_cell_that_claims_a_table_claims_a_number_or_is_a_method_of_our_own(plan: Plan, claims: Claims) -> None:
    """A typo in a label would leave printed numbers to nobody: only methods that no table prints may do that."""
    rows = printed()
    labels = {(row["paper"], row["table"], row["method"]) for row in rows}
    places = set(map(place_of, rows))
    own = {
        (plan.papers[cell.paper].name, cell.published_table, cell.method)
        for place, cells in claims.items()
        for cell in cells
        if cell.published_table and place not in places
    }
    assert {label for label in own if label not in labels} == {("pFedBayes", "Table1", "Local")}


def test_smoke_stays_small() -> None:
    assert len(load_plan({"scale": "smoke", "papers": PAPERS}, ROOT).runs) <= 85
