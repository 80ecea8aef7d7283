"""`make reproduce` takes the lock of a killed Snakemake away, and of no other one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedbayes import slurm_runs, unlock
from fedbayes.unlock import why_not
from prepared import HOST, write


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A folder as a Snakemake leaves it that was killed on this machine."""
    write(tmp_path / ".snakemake/locks/0.input.lock", "a\n")
    write(tmp_path / ".snakemake/locks/0.output.lock", "b\n")
    write_log(tmp_path, HOST)
    return tmp_path


def write_log(folder: Path, host: str) -> Path:
    return write(folder / f".snakemake/log/2026-01-01T000000.{host}.snakemake.log", f"SNAKEMAKE\n  Host: {host}\n")


def test_the_lock_of_a_killed_snakemake_may_go(locked: Path) -> None:
    assert why_not(locked) == ""


@pytest.mark.parametrize("program", [".venv/bin/snakemake", ".snakemake/scripts/tmp1.train.py"])
def test_a_snakemake_of_this_machine_and_its_jobs_are_at_work(locked: Path, program: str) -> None:
    file = write(locked / program, "import time\nprint(flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen([sys.executable, str(file)], cwd=locked, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "\n"
        said = why_not(locked)
        process.kill()
    assert said == f"Snakemake is at work here (process {process.pid})"
    assert why_not(locked) == ""


def test_one_on_another_machine_may_be_at_work(locked: Path) -> None:
    old = write_log(locked, "yesterday")
    os.utime(old, (0, time.time() - 86400))
    assert why_not(locked) == ""
    write_log(locked, "login2")
    assert "(one was at work on login2)" in why_not(locked) and "snakemake --unlock" in why_not(locked)


def test_one_that_submits_jobs_may_be_alive(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(locked)
    file = slurm_runs.begin("name")
    assert "one that submits jobs to SLURM may be alive" in why_not(locked)
    file.close()
    assert why_not(locked) == ""


def test_anothers_lock_is_left_to_them(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlock.os, "getuid", lambda: -1)
    assert "it is another user's" in why_not(locked)


def test_it_unlocks_or_says_why_not(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(unlock.subprocess, "run", lambda words, check: asked.append(words[-1]))
    monkeypatch.chdir(locked)
    unlock.main()
    assert asked == ["--unlock"]
    write_log(locked, "login2")
    with pytest.raises(SystemExit, match="fedbayes: this folder is locked"):
        unlock.main()
    monkeypatch.chdir(write(locked / "empty/file").parent)
    unlock.main()
    assert asked == ["--unlock"]
