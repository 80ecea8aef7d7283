"""Failed jobs that never wrote a log of their own: those whose environment or node was broken.

What Snakemake itself says of them stands in the log of its last start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = ".snakemake/log"
_RULE = re.compile(r"Error in rule \w+:")
_FIELD = re.compile(r"\s+(message|log): (.*)")
_HINT = " (check log file(s) for error details)"


@dataclass(frozen=True)
class Report:
    """What Snakemake says of a failed job: why, as far as it knows, and the file to read."""

    reason: str
    file: str


def failed_jobs(directory: Path) -> dict[str, Report]:
    """Jobs that failed since Snakemake was last started, by the log that their rule declares."""
    newest = max((directory / FOLDER).glob("*.snakemake.log"), default=None)  # named by the time
    if newest is None:
        return {}
    found: dict[str, Report] = {}
    fields: dict[str, str] | None = None
    for line in newest.read_text(encoding="utf-8", errors="replace").splitlines():
        if _RULE.fullmatch(line):
            fields = {}
        elif fields is not None and (field := _FIELD.fullmatch(line)):
            fields[field[1]] = field[2]
            if field[1] == "log":
                own, *slurm = field[2].removesuffix(_HINT).split(", ")
                reason = "" if (said := fields.get("message", "None")) == "None" else f": {said}"
                file = slurm[0] if slurm else str(newest.relative_to(directory))
                found[own] = Report(f"ended before its own log began{reason}", file)
                fields = None
    return found
