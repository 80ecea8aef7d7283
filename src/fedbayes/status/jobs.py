"""What became of a job, from its log, its history, its process and SLURM's word."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedbayes.attempts import Attempt, history_of, last_line, read_attempts
from fedbayes.slurm_logs import FOLDER as SLURM_LOGS
from fedbayes.slurm_logs import OUT_OF_MEMORY, SlurmLogs, why_ended
from fedbayes.status.alive import WAITING, Queue, at_work
from fedbayes.status.snakemake_log import Report, failed_jobs

KILLED = "ended without a word: killed, or its machine went down"


@dataclass(frozen=True)
class JobState:
    """What became of a job.

    Attributes:
        state: `running`, `queued` (by SLURM, again), `failed`, `stopped`, `unknown`, or `missing` for one that never
            started or has finished.
        rule: `train`, `evaluate` or another rule of the workflow.
        log: what to read, below the working directory.
        reason: one line on why, or for a running one what it said last.
        attempts: how often it was started; 0 where that is not known.
        where: machine, process and SLURM job of the last attempt.
        slurm: whether that was one of SLURM's.
    """

    state: str
    rule: str
    log: str = ""
    reason: str = ""
    attempts: int = 0
    where: str = ""
    slurm: bool = False


class Jobs:
    """What the logs below a working directory tell of its jobs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.slurm_logs = SlurmLogs(directory)
        self.queue = Queue({})

    def states(self, jobs: Iterable[tuple[str, str]]) -> list[JobState]:
        """States of some jobs, given as rule and declared log; SLURM is asked once for all of them."""
        jobs = list(jobs)
        attempts = [read_attempts(self._written(log)) for _, log in jobs]
        self.queue = Queue.ask(a.slurm for each in attempts for a in each if a.slurm and a.outcome in ("", "stopped"))
        return [self._state(rule, log, each) for (rule, log), each in zip(jobs, attempts, strict=True)]

    @cached_property
    def _failed(self) -> dict[str, Report]:
        return failed_jobs(self.directory)

    def _state(self, rule: str, log: str, attempts: Sequence[Attempt]) -> JobState:
        own = self.directory / log
        logged = own.exists() and own.stat().st_size > 0
        if not logged and log in self._failed:
            # Snakemake takes a job's log away or empties it before every attempt: this one did not come to write any.
            slurm = bool(attempts and attempts[-1].slurm) or SLURM_LOGS in self._failed[log].file
            return JobState("failed", rule, self._failed[log].file, self._failed[log].reason, slurm=slurm)
        if not attempts:
            return JobState("missing", rule)
        work = [(attempt, at_work(attempt, self.queue)) for attempt in attempts if attempt.outcome == ""]
        running = [attempt for attempt, works in work if works]
        last = running[-1] if running else attempts[-1]
        if running:
            state, reason = "running", self._said(log)
        elif last.outcome == "" and work[-1][1] is None:
            state, reason = "unknown", f"cannot be asked from here; it said last: {self._said(log)}"
        else:
            state, reason = self._end(last)
            if state in ("failed", "stopped") and not logged:
                reason += "; a new attempt was prepared and has not begun"
        count = len(attempts) if self._written(log) != self.directory / log else 0
        return JobState(state, rule, self._log(log, state), reason, count, _where(last), bool(last.slurm))

    def _end(self, last: Attempt) -> tuple[str, str]:
        """State and reason of a job at which nobody works."""
        if last.outcome == "finished":
            return "missing", ""  # and what it made is gone again
        if last.outcome == "failed":
            return "failed", last.reason
        at_slurm = self.queue.state(last.slurm)
        why = why_ended(self.slurm_logs.file(last.slurm), at_slurm) if last.slurm else ""
        said = ", ".join(filter(None, (last.reason, why))) or KILLED
        if at_slurm in WAITING:
            return "queued", f"{said}; SLURM has it in its queue again ({at_slurm})"
        return ("failed", why) if why == OUT_OF_MEMORY else ("stopped", said)

    def _said(self, log: str) -> str:
        """The last line of a job and how long ago that was, without the run's name before it."""
        file = self._written(log)
        return f"{last_line(file).rpartition(': ')[2]} ({ago(file)})"

    def _written(self, log: str) -> Path:
        """Where most of a job is told: its history, or its log where it keeps none."""
        history = history_of(self.directory / log)
        return history if history.exists() else self.directory / log

    def _log(self, log: str, state: str) -> str:
        """What to read: all rounds of a job at work; of one that ended, the short log that says why."""
        short = self.directory / log
        file = short if state in ("queued", "failed", "stopped") and short.exists() else self._written(log)
        return str(file.relative_to(self.directory))


def _where(attempt: Attempt) -> str:
    return f"{attempt.host}, process {attempt.process}" + (f", SLURM job {attempt.slurm}" if attempt.slurm else "")


def ago(file: Path) -> str:
    """`12 s ago`, `5 min ago`, `3 h ago` or `2 days ago`: when a file was written."""
    seconds = max(0.0, time.time() - file.stat().st_mtime)
    for size, unit, most in ((1, "s", 100), (60, "min", 6000), (3600, "h", 48 * 3600)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds / 86400:.0f} days ago"
