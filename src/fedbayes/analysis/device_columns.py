"""Settings that name a device as columns by device: the shape of Self-FL's Tables 4 to 6.

The paper prints a row for each state and a column for each type of device; `published.csv` has one setting for each
number: `global model, 20 clients, C=0.25, state normal, device A`. Here the device becomes the column, what all
settings share goes into the heading, and the rest (`state normal`) into the row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

SETTING = re.compile(r"^(?P<words>.+), (?P<column>device \w+)$")


def by_device(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with a `part` of the table each, and its column as `setting`; no parts unless all settings name devices.

    Args:
        rows: of one table of a reproduction.
    """
    found = [match for row in rows if (match := SETTING.match(row["setting"]))]
    if len(found) < len(rows):
        return [row | {"part": ""} for row in rows]
    words = [match["words"].split(", ") for match in found]
    shared = [word for word in words[0] if all(word in other for other in words)]
    return [
        row
        | {
            "dataset": f"{row['dataset']}: {', '.join(shared)}" if shared else row["dataset"],
            "part": ", ".join(word for word in own if word not in shared),
            "setting": match["column"],
        }
        for row, own, match in zip(rows, words, found, strict=True)
    ]
