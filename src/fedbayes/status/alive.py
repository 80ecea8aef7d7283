"""Whether an attempt that said nothing of its end is still at work: by its process here, or by SLURM's queue."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil

from fedbayes.attempts import Attempt

# A queue that does not answer within this many seconds is taken not to be there.
PATIENCE = 5.0
# Lines of a log have whole seconds, and the clock of the processes is not quite that of the logs.
ROUNDING_SECONDS = 2.0
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
        "REVOKED", "TIMEOUT")  # fmt: skip


@dataclass(frozen=True)
class Queue:
    """What SLURM knows of some jobs: their states by number; None where it could not be asked."""

    states: Mapping[str, str] | None

    @classmethod
    def ask(cls, jobs: Iterable[str]) -> Queue:
        """Ask `squeue` about all jobs at once; it is not called where there is none to ask about."""
        numbers = sorted(set(jobs))
        return cls(_squeue(numbers) if numbers else {})

    def state(self, job: str) -> str:
        """A job's state; empty where the queue does not know it (any more)."""
        return (self.states or {}).get(job, "")


def _squeue(jobs: list[str]) -> dict[str, str] | None:
    command = ["squeue", "--noheader", "--array", "--format=%i %T", f"--jobs={','.join(jobs)}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        # Asked about one job alone that it has forgotten, it complains.
        return {} if "Invalid job id" in done.stderr else None
    return {words[0]: words[1] for line in done.stdout.splitlines() if len(words := line.split()) == 2}


def is_here(attempt: Attempt) -> bool:
    """Whether the attempt's machine is this one."""
    return attempt.host == socket.gethostname()


def lives_here(attempt: Attempt) -> bool:
    """Whether the attempt's process lives on this machine; a later process that got its number does not count."""
    if not is_here(attempt):
        return False
    began = _process_began(attempt.process)
    if began is None:
        return False
    return began <= attempt.began + ROUNDING_SECONDS


def _process_began(process: int) -> float | None:
    """When a process of this machine began, in seconds since 1970; None if there is none that is at work."""
    try:
        found = psutil.Process(process)
        # A zombie has ended, and its parent has not asked how.
        return None if found.status() == psutil.STATUS_ZOMBIE else float(found.create_time())
    except psutil.Error:
        return None


def at_work(attempt: Attempt, queue: Queue) -> bool | None:
    """Whether an attempt that said nothing of its end is still at work; None where that cannot be found out."""
    if lives_here(attempt):
        return True
    if attempt.slurm:
        state = queue.state(attempt.slurm)
        return None if queue.states is None else bool(state) and state not in (*WAITING, *OVER)
    return False if is_here(attempt) else None
