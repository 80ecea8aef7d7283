"""Logs and folders as jobs leave them, written by hand: every state of a run without a job."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedbayes.attempts import history_of
from fedbayes.plan import Run
from fedbayes.status.runs import EVALUATED, TRAINED, log_of

HOST = socket.gethostname()


def record(message: str, level: str = "INFO", at: float | None = None) -> str:
    """A line of a log, by default of now."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))},123 {level} {message}\n"


def started(process: int, slurm: str = "", host: str = HOST, at: float | None = None) -> str:
    return record(f"started on {host}, process {process}" + (f", SLURM job {slurm}" if slurm else ""), at=at)


def ended(process: int, outcome: str, host: str = HOST) -> str:
    return record(f"ended on {host}, process {process}: {outcome}")


def write(file: Path, *lines: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines), encoding="utf-8")
    return file


def write_logs(folder: Path, rule: str, run: Run, *lines: str) -> None:
    """The history of a run's job, and its log as if there had been one attempt."""
    log = folder / log_of(rule, run)
    write(log, *lines)
    write(history_of(log), *lines)


def write_artefacts(folder: Path, run: Run, evaluated: bool, code: str = "") -> None:
    """Files with the names of those that training and evaluation leave; all are empty but the one that has the code."""
    for name in sorted(TRAINED) + (sorted(EVALUATED) if evaluated else []):
        write(folder / run.folder / name)
    write(folder / run.folder / "run.json", json.dumps({"code": code or run.code}))


def dead_process() -> int:
    """The number of a process that there was."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def living_process() -> int:
    """The number of a process that is there: this one."""
    return os.getpid()


def fake_squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A `squeue` before all others on the path, as a shell script."""
    program = write(folder / "bin/squeue", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
