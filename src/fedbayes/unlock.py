"""`make reproduce` goes on after a kill: the lock that a killed Snakemake left is taken away.

Snakemake's lock does not say whose it is. The processes of this machine can be asked; other machines may share the
folder, and of a Snakemake there nothing is known but its log and what it has submitted. Where one may live, a person
decides.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import psutil

from fedbayes import slurm_runs
from fedbayes.status.snakemake_log import FOLDER as LOGS

LOCKS = ".snakemake/locks"
# Snakemake, by its name or as a module, and the scripts of its jobs, which may outlive it.
WORKER = re.compile(r"python\S* (-m snakemake|\S*bin/snakemake|\S*\.snakemake/scripts/)", re.IGNORECASE)
HOST = re.compile(r"^  Host: (\S+)$", re.MULTILINE)
UNKNOWN = (
    "this folder is locked, and whether the Snakemake that locked it has ended cannot be known here ({why}). Wait "
    "for it; if it has ended: snakemake --unlock, then the same command"
)


def why_not(folder: Path) -> str:
    """Why the lock of a folder has to stay, in one sentence; empty if it may be taken away."""
    if worker := _worker(folder):
        return f"Snakemake is at work here (process {worker})"
    locks = [lock.stat() for lock in (folder / LOCKS).iterdir()]
    if any(lock.st_uid != os.getuid() for lock in locks):
        return UNKNOWN.format(why="it is another user's")
    if slurm_runs.may_live(folder):
        return UNKNOWN.format(why="one that submits jobs to SLURM may be alive")
    others = _machines(folder, since=min(lock.st_mtime for lock in locks)) - {socket.gethostname()}
    return UNKNOWN.format(why=f"one was at work on {', '.join(sorted(others))}") if others else ""


def _worker(folder: Path) -> int | None:
    """A process of this machine, a Snakemake or a job of one, that is at work in a folder."""
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words, where = process.info["cmdline"] or [], process.info["cwd"]
        if WORKER.search(" ".join(words)) and where and Path(where) == folder.resolve():
            return int(process.pid)
    return None


def _machines(folder: Path, since: float) -> set[str]:
    """Where Snakemakes ran that have written to their logs since a time: whoever made the lock then is among them."""
    found: set[str] = set()
    for log in (folder / LOGS).glob("*.snakemake.log"):
        if log.stat().st_mtime >= since:
            found |= set(HOST.findall(log.read_text(encoding="utf-8", errors="replace")))
    return found


def main() -> None:
    """Unlock the working directory, or say in one sentence why not."""
    here = Path()
    if not any((here / LOCKS).glob("*")):
        return
    if why := why_not(here):
        sys.exit(f"fedbayes: {why}")
    subprocess.run([sys.executable, "-m", "snakemake", "--unlock"], check=True)


if __name__ == "__main__":
    main()
