"""How a job's log says who works on it and how that ended: written by the job, read back by `make status`.

Snakemake deletes a job's log before every attempt and prints it whole when the job fails. So the log that a rule
declares is short and tells of one attempt; beside it a *history* keeps what all attempts said, every round included.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)s %(message)s"
CRASHED = "the job failed"
_TIME = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3}"
_RECORD = re.compile(rf"{_TIME} ([A-Z]+) (.*)$", re.MULTILINE)
# Of thousands of lines the few that tell who worked and how that ended.
_TELLING = re.compile(rf"{_TIME} (INFO(?= started on| ended on)|WARNING|ERROR) (.*)$", re.MULTILINE)
_STARTED = re.compile(r"^started on (\S+), process (\d+)(?:, SLURM job (\S+))?$")
_ENDED = re.compile(r"^ended on (\S+), process (\d+): (finished|failed|stopped)$")


@dataclass(frozen=True)
class Attempt:
    """One start of a job.

    Attributes:
        host: the machine it ran on.
        process: its process there.
        slurm: its SLURM job; empty outside SLURM. A job that SLURM starts again keeps the number.
        began: when, in seconds since 1970.
        outcome: `finished`, `failed`, `stopped`, or empty while nothing was said of its end.
        reason: one line on why it failed or stopped.
    """

    host: str
    process: int
    slurm: str
    began: float
    outcome: str = ""
    reason: str = ""


def history_of(log: Path) -> Path:
    """Where all attempts of a job are kept: `<run>.history.log` beside `<run>.log`."""
    return log.with_suffix(".history.log")


def started(environment: Mapping[str, str]) -> str:
    """The line that a job begins its log with."""
    job = environment.get("SLURM_JOB_ID", "")
    if "SLURM_ARRAY_JOB_ID" in environment:
        job = f"{environment['SLURM_ARRAY_JOB_ID']}_{environment['SLURM_ARRAY_TASK_ID']}"
    return f"started {_whereabouts()}" + (f", SLURM job {job}" if job else "")


def ended(outcome: str) -> str:
    """The line that a job ends its log with."""
    return f"ended {_whereabouts()}: {outcome}"


def _whereabouts() -> str:
    return f"on {socket.gethostname()}, process {os.getpid()}"


def read_attempts(log: Path) -> list[Attempt]:
    """All attempts that a log or a history tells of, the oldest first; none where there is no such file.

    Two attempts may write at the same time (one that was thought dead): an end belongs to whom it names.
    """
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    found: list[Attempt] = []
    warning = error = ""
    for record in _TELLING.finditer(text):
        at, level, message = record.groups()
        if level == "WARNING":
            warning = message
        elif level == "ERROR":
            error = _last_of_traceback(text, record.end()) if message == CRASHED else message
        elif match := _STARTED.match(message):
            began = time.mktime(time.strptime(at, "%Y-%m-%d %H:%M:%S"))
            found.append(Attempt(match[1], int(match[2]), match[3] or "", began))
            warning = error = ""
        elif match := _ENDED.match(message):
            reason = {"failed": error, "stopped": warning}.get(match[3], "")
            found = [
                replace(attempt, outcome=match[3], reason=reason)
                if (attempt.host, attempt.process, attempt.outcome) == (match[1], int(match[2]), "")
                else attempt
                for attempt in found
            ]
    return found


def _last_of_traceback(text: str, start: int) -> str:
    """The last line before the next record: it names the error."""
    following = _RECORD.search(text, start)
    lines = text[start : following.start() if following else None].split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), CRASHED)


def last_line(log: Path) -> str:
    """What a log or a history said last; empty where there is nothing. Only its end is read: it may be long."""
    try:
        with log.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 4096))
            lines = stream.read().decode("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    said = [match[3] for line in lines if (match := _RECORD.match(line))]
    return said[-1] if said else ""
