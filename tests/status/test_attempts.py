"""A job's log says who works on it and how that ended, and that can be read back."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedbayes import attempts
from fedbayes.attempts import history_of, last_line, read_attempts
from fedbayes.job import LeftToAnother, job
from fedbayes.reading import ConfigError
from prepared import HOST, ended, record, started, write

LOG = logging.getLogger("fedbayes")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, level, own = logging.getLogger(), logging.getLogger().level, LOG.level
    handlers = list(root.handlers)
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers, root.level, LOG.level = handlers, level, own


def test_a_job_that_ends_well_says_so(tmp_path: Path) -> None:
    log = tmp_path / "logs/fetch/mnist.log"
    with job(str(log)):
        assert [(a.process, a.outcome) for a in read_attempts(log)] == [(os.getpid(), "")]
    (attempt,) = read_attempts(log)
    assert (attempt.host, attempt.outcome, attempt.reason, attempt.slurm) == (HOST, "finished", "", "")
    assert abs(attempt.began - time.time()) < 60 and not history_of(log).exists()


def test_a_mistake_of_the_user_is_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    with pytest.raises(SystemExit, match="fedbayes: data: the file is damaged"), job(str(log)):
        raise ConfigError("data: the file is damaged")
    assert [(a.outcome, a.reason) for a in read_attempts(log)] == [("failed", "data: the file is damaged")]


def test_of_a_crash_the_last_line_of_the_traceback_is_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    with pytest.raises(ZeroDivisionError), job(str(log)):
        1 / 0  # noqa: B018
    assert [(a.outcome, a.reason) for a in read_attempts(log)] == [("failed", "ZeroDivisionError: division by zero")]
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize(
    ("error", "reason"),
    [(KeyboardInterrupt(), "stopped by SIGINT"), (SystemExit(143), "stopped by SIGTERM after round 3")],
)
def test_a_job_that_is_asked_to_stop_has_not_failed(tmp_path: Path, error: BaseException, reason: str) -> None:
    log = tmp_path / "job.log"
    with pytest.raises(type(error)), job(str(log)):
        if isinstance(error, SystemExit):
            LOG.warning("stopped by SIGTERM after round 3")
        raise error
    assert [(a.outcome, a.reason) for a in read_attempts(log)] == [("stopped", reason)]


def test_a_job_that_sigterm_ends_says_so(tmp_path: Path) -> None:
    log, before = tmp_path / "job.log", signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit, match="fedbayes: stopped by SIGTERM"), job(str(log)):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except Exception:
            pytest.fail("the work takes it for an error of its own")
    assert [(a.outcome, a.reason) for a in read_attempts(log)] == [("stopped", "stopped by SIGTERM")]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("shown", "reason", "asked"),
    [
        (
            "JobState=RUNNING PreemptTime=2026-01-01T00:01:00",
            "preempted: the job is in SLURM's queue again",
            ["show", "requeue"],
        ),
        (
            "JobState=RUNNING EndTime=2026-01-01T00:01:00 PreemptTime=None",
            "its time was nearly up; nothing new was kept",
            ["show"],
        ),
        ("JobState=CANCELLED PreemptTime=None", "stopped by SIGTERM", ["show"]),
    ],
)
def test_a_preempted_job_goes_back_into_the_queue_and_one_whose_time_is_up_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, reason: str, asked: list[str]
) -> None:
    """SLURM sends SIGTERM again to a job that it queues again: its last line is written all the same."""
    before = signal.getsignal(signal.SIGTERM)
    again = f'[ "$1" = show ] || kill -TERM {os.getpid()}'
    scontrol = write(tmp_path / "bin/scontrol", f"#!/bin/sh\necho $1 >> {tmp_path}/asked\necho '{shown}'\n{again}\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scontrol.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    log = tmp_path / "job.log"
    with pytest.raises(SystemExit, match="fedbayes: stopped by SIGTERM"), job(str(log)):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    assert [(a.outcome, a.reason, a.slurm) for a in read_attempts(log)] == [("stopped", reason, "77")]
    assert (tmp_path / "asked").read_text().split() == asked
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_job_whose_work_another_one_does_ends_with_a_sentence(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    with pytest.raises(SystemExit, match="fedbayes: another job has"), job(str(log)):
        raise LeftToAnother("another job has taken over")
    assert [(a.outcome, a.reason) for a in read_attempts(log)] == [("stopped", "another job has taken over")]
    assert "Traceback" not in log.read_text()


def test_the_log_is_short_and_the_history_has_everything_of_all_attempts(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    for attempt in (1, 2):
        log.unlink(missing_ok=True)  # as Snakemake does
        with job(str(log), history=True):
            LOG.info("shown in attempt %d", attempt)
            LOG.debug("round of attempt %d", attempt)
            logging.getLogger("another.library").debug("chatter")
    assert "shown in attempt 2" in log.read_text() and "attempt 1" not in log.read_text()
    assert "round of" not in log.read_text()
    history = history_of(log).read_text()
    assert history.count("shown in attempt") == history.count("round of attempt") == 2 and "chatter" not in history
    assert [a.outcome for a in read_attempts(history_of(log))] == ["finished", "finished"]


def test_the_slurm_job_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempts.started({"SLURM_JOB_ID": "77"}).endswith("SLURM job 77")
    task = {"SLURM_JOB_ID": "79", "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "2"}
    assert attempts.started(task).endswith("SLURM job 77_2")


def test_an_end_belongs_to_the_attempt_it_names(tmp_path: Path) -> None:
    """Process 1 was thought dead and process 2 started; then 1 fails while 2 works on."""
    log = write(
        tmp_path / "run.log",
        started(1, slurm="7", host="n1"),
        started(2, slurm="8", host="n2"),
        record("the disk is full", "ERROR"),
        ended(1, "failed", host="n1"),
    )
    assert [(a.slurm, a.outcome, a.reason) for a in read_attempts(log)] == [
        ("7", "failed", "the disk is full"),
        ("8", "", ""),
    ]


def test_a_reason_is_of_its_own_attempt(tmp_path: Path) -> None:
    """A sentence of an earlier attempt does not explain a later one; lines before any start are nobody's."""
    log = write(
        tmp_path / "run.log",
        "no record\n",
        record("old", "ERROR"),
        *(started(1), record("first", "ERROR"), ended(1, "failed")),
        *(started(2), ended(2, "failed")),
    )
    assert [a.reason for a in read_attempts(log)] == ["first", ""]


def test_what_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert read_attempts(tmp_path / "none.log") == [] and last_line(tmp_path / "none.log") == ""


def test_the_last_line_is_found_at_the_end_of_a_long_log(tmp_path: Path) -> None:
    log = write(tmp_path / "run.log", *(record(f"round {n}/2000") for n in range(2001)))
    assert last_line(log) == "round 2000/2000"
