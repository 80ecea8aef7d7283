"""What of a paper did not run, and what ran cost: the parts of the report that no table shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from fedbayes.analysis import display
from fedbayes.analysis.compare import printed_only
from fedbayes.analysis.published import KEY

PLACE = ["table", "dataset", "setting", "method"]
CLAIMED = ["published_table", "published_dataset", "published_setting", "method"]
NO_EXPERIMENT = "no experiment"

Records = Sequence[tuple[pd.DataFrame, Mapping[str, Any]]]


@dataclass(frozen=True)
class Unrun:
    """A part of a paper that did not run at this scale.

    Attributes:
        experiment: its title, or `NO_EXPERIMENT`.
        setting: the setting, or the table no experiment is about.
        methods: the methods left out there.
        cells: places of tables (preset and seed each its own) that another scale fills.
        numbers: printed numbers that therefore stand as `not run`.
    """

    experiment: str
    setting: str
    methods: str
    cells: int
    numbers: int


def unrun(rows: pd.DataFrame, left_out: Sequence[Mapping[str, Any]]) -> list[Unrun]:
    """All that did not run: settings the scale leaves out, then printed numbers that no experiment is about.

    Args:
        rows: a reproduction.
        left_out: what `Plan.left_out` says of the paper.
    """
    rows = printed_only(rows)
    missing = rows[rows["status"] != "run"].drop_duplicates(KEY)
    numbers = missing.groupby(PLACE, sort=False).size().to_dict()
    parts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in left_out:
        parts.setdefault((row["experiment"], row["setting"]), []).append(row)
    found = [_part(*names, of_part, numbers) for names, of_part in parts.items()]
    claimed = {_place(row) for row in left_out}
    without = [place not in claimed for place in missing[PLACE].itertuples(index=False, name=None)]
    for table, of_table in missing.loc[without].groupby("table", sort=False):
        methods = ", ".join(dict.fromkeys(of_table["method"]))
        found.append(Unrun(NO_EXPERIMENT, display.title(str(table)), methods, 0, len(of_table)))
    return found


def _part(experiment: str, setting: str, rows: Sequence[Mapping[str, Any]], numbers: Mapping[Any, int]) -> Unrun:
    methods = ", ".join(dict.fromkeys(row["method"] for row in rows))
    count = sum(numbers.get(place, 0) for place in {_place(row) for row in rows})
    return Unrun(experiment, setting, methods, sum(row["cells"] for row in rows), count)


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[column] for column in CLAIMED)


def core_hours(record: Mapping[str, Any]) -> float:
    """Hours of training times the threads it had."""
    return float(record["seconds"]) * int(record["hardware"].get("threads", 1)) / 3600


def cost(records: Records) -> list[dict[str, str]]:
    """Runs and hours of each method on each machine, in the order of the runs."""
    runs = pd.DataFrame(
        [
            {"method": cells.iloc[0]["method"], "hardware": display.hardware(record), "hours": core_hours(record)}
            for cells, record in records
        ]
    )
    groups = runs.groupby(["method", "hardware"], sort=False)["hours"].agg(["size", "sum", "max"]).reset_index()
    return [
        {
            "Method": row["method"],
            "Runs": f"{row['size']:,}",
            "Core-hours": display.hours(row["sum"]),
            "Longest run": display.hours(row["max"]),
            "Hardware": row["hardware"],
        }
        for row in cast(list[dict[str, Any]], groups.to_dict("records"))
    ]
