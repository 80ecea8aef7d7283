"""A training job that is asked to stop, or whose run another job has taken over."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from embedded import prepare, small_run, train_in
from fedbayes.config import Execution
from fedbayes.federation import loop
from fedbayes.preemption import back_into_queue
from fedbayes.runs import train as training
from fedbayes.runs.ownership import Owner, TakenOver
from fedbayes.runs.stopping import Stopped, StopSign, listening

FILES = ("state.safetensors", "rounds.parquet")


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run, undisturbed."""
    return train_in(tmp_path_factory.mktemp("calm"), small_run())


def start(folder: Path, stop: StopSign) -> None:
    """Train with checkpoints an hour apart, so that the only one is what a request to stop leaves."""
    dataset, split = prepare(folder, small_run())
    training.train(
        small_run(), "test", dataset, split, None, folder / "run", Execution(checkpoint_seconds=3600),
        show=lambda line: None, stop=stop,
    )  # fmt: skip


def same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes()


def signalled(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, number: signal.Signals, at: int) -> None:
    """Send this process a signal when a function is called for the `at`-th time, before it does anything."""
    original: Callable[..., object] = getattr(owner, name)
    calls = []

    def called(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == at:
            os.kill(os.getpid(), number)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_in_the_middle_of_a_round_it_keeps_the_round_before_and_goes_on_to_the_same_bytes(
    calm: Path, tmp_path: Path, number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.MonkeyPatch.context() as patched, listening() as stop:
        signalled(patched, loop, "merge", number, at=3)
        with pytest.raises(SystemExit, match=f"stopped by {number.name} after round 2"):
            start(tmp_path, stop)
    assert [path.name for path in (tmp_path / "run/checkpoint").glob("round-*")] == ["round-000002"]
    assert f"stopped by {number.name} after round 2 of 4" in caplog.text
    assert not (tmp_path / "run/state.safetensors").exists()
    same_bytes(train_in(tmp_path, small_run()), calm)


def test_asked_during_a_test_the_round_is_completed_first(calm: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched, listening() as stop:
        # Two models are tested before the first round and after each: the fifth call belongs to round 2.
        signalled(patched, training, "predict_followed", signal.SIGTERM, at=5)
        with pytest.raises(SystemExit, match="after round 2"):
            start(tmp_path, stop)
    same_bytes(train_in(tmp_path, small_run()), calm)


def test_asked_before_the_first_round_or_after_the_last(calm: Path, tmp_path: Path) -> None:
    stop = StopSign()
    stop.asked = "SIGTERM"
    with pytest.raises(SystemExit, match="after round 0"):
        start(tmp_path / "early", stop)
    same_bytes(train_in(tmp_path / "early", small_run()), calm)
    with pytest.MonkeyPatch.context() as patched, listening() as stop:
        signalled(patched, training, "write_state", signal.SIGTERM, at=1)
        start(tmp_path / "late", stop)
    same_bytes(tmp_path / "late/run", calm)


def test_signals_do_afterwards_what_they_did_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with listening() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked == "SIGTERM"
        with pytest.raises(Stopped), stop.cutting_short():
            pytest.fail("what was asked for before the block ends it at its first line")
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_older_job_leaves_the_files_of_the_one_that_took_over_alone(calm: Path, tmp_path: Path) -> None:
    """A second job claims the run in the older one's third round: that one writes neither checkpoint nor result."""
    original, calls = loop.merge, []

    def taken_over(*args: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            Owner(tmp_path / "run/checkpoint")
        return original(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "merge", taken_over)
        with pytest.raises(TakenOver, match="another job has taken over this run"):
            train_in(tmp_path, small_run(), checkpoint_seconds=0)
    run = tmp_path / "run"
    assert sorted(path.name for path in run.iterdir()) == ["checkpoint"]
    assert sorted(path.name for path in (run / "checkpoint").iterdir()) == ["owner", "round-000001", "round-000002"]
    same_bytes(train_in(tmp_path, small_run()), calm)
    assert not (run / "checkpoint").exists()


def test_checkpoints_of_a_job_that_took_over_while_files_were_written_stay(tmp_path: Path) -> None:
    original = training.write_json

    def claimed(path: Path, value: object) -> None:
        Owner(tmp_path / "run/checkpoint")
        original(path, value)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(training, "write_json", claimed)
        run = train_in(tmp_path, small_run())
    assert (run / "run.json").exists() and (run / "checkpoint/owner").exists()


def test_checkpoints_of_a_job_that_takes_over_while_they_are_removed_stay(calm: Path, tmp_path: Path) -> None:
    """It claims the run when the first of them has gone: it still owns it, and has one to go on from."""
    kept, remove, claims = tmp_path / "run/checkpoint", shutil.rmtree, list[Owner]()

    def claimed(path: Path, *arguments: object, **options: object) -> None:
        # Before there are results, old checkpoints make room for new ones.
        if (tmp_path / "run/run.json").exists():
            claims.append(Owner(kept))
        remove(path, *arguments, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shutil, "rmtree", claimed)
        train_in(tmp_path, small_run(), checkpoint_seconds=0)
    (claim,) = claims
    assert claim.holds() and len(list(kept.glob("round-*"))) == 1
    same_bytes(train_in(tmp_path, small_run()), calm)
    assert not kept.exists()


def seconds_from_now(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds).isoformat(timespec="seconds")


QUEUED = "the job is in SLURM's queue again"


# The words SOON and LATER become times when a test runs: as part of its name they would differ between the processes
# that run the tests.
@pytest.mark.parametrize(
    ("shown", "got_on", "said"),
    [
        (
            "JobState=RUNNING PreemptEligibleTime=2026-01-01T00:00:00 PreemptTime=2026-01-01T00:01:00",
            False,
            f"preempted: {QUEUED}",
        ),
        ("JobState=CANCELLED PreemptTime=2026-01-01T00:01:00", True, ""),
        ("JobState=RUNNING EndTime=SOON PreemptTime=None", True, f"at its time limit: {QUEUED}"),
        ("JobState=RUNNING EndTime=SOON PreemptTime=None", False, "its time was nearly up; nothing new was kept"),
        ("JobState=CANCELLED EndTime=SOON PreemptTime=None", True, ""),
        ("JobState=RUNNING EndTime=LATER PreemptTime=None", True, ""),
        ("JobState=RUNNING EndTime=Unknown PreemptTime=None", True, ""),
        ("slurm_load_jobs error: Invalid job id specified", True, ""),
    ],
)
def test_what_goes_back_into_the_queue(
    shown: str, got_on: bool, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = shown.replace("SOON", seconds_from_now(100)).replace("LATER", seconds_from_now(36_000))
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho $1 >> {tmp_path}/asked\necho '{shown}'\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert back_into_queue(got_on) == said
    assert (tmp_path / "asked").read_text().split() == (["show", "requeue"] if QUEUED in said else ["show"])


def test_without_slurm_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert back_into_queue(got_on=True) == ""
