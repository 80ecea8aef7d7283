"""A job that SLURM ends before its work is done goes back into SLURM's queue, and counts as no failed attempt.

It must make room for a more urgent one: partitions may give preempted jobs some grace after SIGTERM. Or its time is up:
rule `train` asks for SIGTERM three minutes before the limit. A job that uses these minutes to end by itself has,
for SLURM, ended: it would not be queued again, and Snakemake would count a failure. So it asks for its place in the
queue before it ends. A job that a person cancelled must not come back, nor one that got nowhere in all its time, which
the next attempt's longer limit may help: SLURM is asked why the job has to go. Only training keeps what it has done:
any other job comes back after a preemption alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from datetime import datetime

# A job that is asked to go so many seconds before its time limit is taken to be asked for that reason: the rule has
# 180, and SLURM may be a minute early; so whoever sets another lead can have 240 at most.
NEAR_ITS_END = 300
TIME_IS_UP = "at its time limit"


def back_into_queue(got_on: bool) -> str:
    """Queue this process's SLURM job again where that is right; returns what to say of it, empty if nothing.

    Args:
        got_on: whether the job has completed a round and kept it, so that it would not be queued for ever.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return ""
    why = _why_asked_to_go(_scontrol("show", "job", job).stdout)
    if why == TIME_IS_UP and not got_on:
        return "its time was nearly up; nothing new was kept"
    return f"{why}: the job is in SLURM's queue again" if why and _scontrol("requeue", job).returncode == 0 else ""


def _why_asked_to_go(shown: str) -> str:
    """Of what SLURM says about a job, why it has to go, unless somebody cancels it: then it is not running any more."""
    if re.search(r"\bPreemptTime=\d", shown) and not re.search(r"\bJobState=CANCELLED\b", shown):
        return "preempted"
    end = re.search(r"\bEndTime=(\d\S+)", shown)
    if end and re.search(r"\bJobState=RUNNING\b", shown):
        left = datetime.fromisoformat(end[1]).timestamp() - time.time()
        return TIME_IS_UP if left < NEAR_ITS_END else ""
    return ""


def _scontrol(*arguments: str) -> subprocess.CompletedProcess[str]:
    """SLURM's own command; one that is missing or hangs is one that fails."""
    try:
        return subprocess.run(["scontrol", *arguments], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return subprocess.CompletedProcess(["scontrol", *arguments], 1, "", "")
