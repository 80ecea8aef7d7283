"""Whether a silent attempt is at work: by its process, by SLURM's queue, or not to be found out."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil
import pytest

from fedbayes.attempts import Attempt
from fedbayes.status import alive
from fedbayes.status.alive import Queue, at_work
from prepared import HOST, dead_process, fake_squeue, living_process

NOBODY = Queue({})


def attempt(process: int = 1, slurm: str = "", host: str = HOST, began: float | None = None) -> Attempt:
    return Attempt(host, process, slurm, time.time() if began is None else began)


def test_a_process_of_this_machine_is_asked_itself() -> None:
    assert at_work(attempt(living_process()), NOBODY) is True
    assert at_work(attempt(dead_process()), NOBODY) is False


def test_a_later_process_with_the_same_number_is_another_one() -> None:
    assert at_work(attempt(living_process(), began=time.time() - 7 * 86400), NOBODY) is False


def test_a_process_that_ended_and_was_not_asked_how_is_not_at_work() -> None:
    child = subprocess.Popen(["true"])
    while alive._process_began(child.pid) is not None:
        time.sleep(0.01)
    assert psutil.pid_exists(child.pid) and at_work(attempt(child.pid), NOBODY) is False
    child.wait()


def test_a_process_of_another_machine_cannot_be_asked() -> None:
    assert at_work(attempt(living_process(), host="elsewhere"), NOBODY) is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [("RUNNING", True), ("COMPLETING", True), ("PENDING", False), ("TIMEOUT", False), ("", False)],
)
def test_the_queue_tells_of_its_jobs(state: str, expected: bool) -> None:
    assert at_work(attempt(host="n7", slurm="77"), Queue({"77": state} if state else {})) is expected


def test_nothing_is_known_where_the_queue_does_not_answer() -> None:
    assert at_work(attempt(host="n7", slurm="77"), Queue(None)) is None


def test_squeue_is_asked_once_for_all_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_squeue(tmp_path, monkeypatch, f'echo "$@" >> {tmp_path}/asked; echo "7 RUNNING"; echo "8_2 PENDING"')
    queue = Queue.ask(["8_2", "7", "7", "9"])
    assert (queue.state("7"), queue.state("8_2"), queue.state("9")) == ("RUNNING", "PENDING", "")
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert asked.endswith("--jobs=7,8_2,9")


def test_squeue_is_not_asked_about_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_squeue(tmp_path, monkeypatch, f"touch {tmp_path}/asked")
    assert Queue.ask([]).states == {} and not (tmp_path / "asked").exists()


def test_a_job_that_slurm_has_forgotten_is_not_in_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_squeue(tmp_path, monkeypatch, "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert Queue.ask(["7"]).states == {}


@pytest.mark.parametrize("script", ["echo 'Unable to contact slurm controller' >&2; exit 1", "exec sleep 60"])
def test_a_queue_that_is_down_or_silent_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(alive, "PATIENCE", 0.5)
    fake_squeue(tmp_path, monkeypatch, script)
    assert Queue.ask(["7"]).states is None


def test_a_machine_without_slurm_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Queue.ask(["7"]).states is None
