"""Why SLURM ended a job, from the log it keeps of it: the job itself could not say."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

FOLDER = ".snakemake/slurm_logs"
OUT_OF_MEMORY = "killed: out of memory"
# What SLURM calls such an end in its queue, and what it writes into the log of a job that it ends so.
_SIGNS = {
    OUT_OF_MEMORY: ("OUT_OF_MEMORY", ("oom-kill", "oom_kill", "out of memory", "memory limit")),
    "time limit": ("TIMEOUT", ("due to time limit",)),
    "preempted": ("PREEMPTED", ("due to preemption",)),
    "its node failed": ("NODE_FAIL", ("due to node failure",)),
    "cancelled": ("CANCELLED", ("cancelled at",)),
}


def why_ended(log: Path | None, state: str = "") -> str:
    """Why a job ended, by its state in the queue and by the lines that SLURM itself wrote; empty if unknown."""
    said = ""
    if log is not None and log.exists():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        # slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT ... DUE TO TIME LIMIT ***; or slurmstepd-n1: error: ...
        said = "\n".join(line for line in lines if line.startswith(("slurmstepd", "srun:", "slurmd"))).lower()
    for words, (name, signs) in _SIGNS.items():
        if state == name or any(sign in said for sign in signs):
            return words
    return ""


class SlurmLogs:
    """The logs that SLURM wrote below a working directory, by job; the folder is looked through once, when needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {file.stem: file for file in (self.directory / FOLDER).rglob("*.log")}

    def file(self, job: str) -> Path | None:
        """The log of a job; None where there is none."""
        return self._files.get(job)
