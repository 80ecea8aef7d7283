"""One GPU a job and one job a GPU, with GPUs that are not there and processes that are."""

from __future__ import annotations

import fcntl
import logging
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fedbayes import devices
from fedbayes.config import Execution
from fedbayes.devices import Gpus, claimed, visible
from fedbayes.reading import ConfigError

FORK: Any = multiprocessing.get_context("fork")
TWO = Gpus(("GPU-a", "GPU-b"))
NONE = Gpus(())
CUDA = Execution(device="cuda")


@pytest.fixture(autouse=True)
def outside_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(devices, "LOOK_EVERY", 0.01)


def hold(locks: Path, gpus: Gpus, said: Any, name: int, released: Any) -> None:
    """Claim a GPU, say which, and hold it until released."""
    with claimed(CUDA, gpus, locks) as execution:
        said.put((execution.device, name))
        released.wait()


def started(target: Callable[..., None], *arguments: Any) -> Any:
    process = FORK.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def test_eight_jobs_on_three_gpus_never_meet(tmp_path: Path) -> None:
    said, gpus = FORK.Queue(), Gpus(("GPU-a", "GPU-b", "GPU-c"))
    released = [FORK.Event() for _ in range(8)]
    jobs = [started(hold, tmp_path, gpus, said, name, event) for name, event in enumerate(released)]
    held = dict[str, int]()
    for _ in jobs:
        device, name = said.get(timeout=60)
        assert device not in held, "its holder has not been released"
        held[device] = name
        if len(held) == 3:
            released[held.pop(device)].set()
    assert {*held, device} == {"cuda:0", "cuda:1", "cuda:2"}
    for event in released:
        event.set()
    for job in jobs:
        job.join(60)
    assert list(tmp_path.iterdir()) == [], "nothing is left of the locks"


def test_a_killed_job_frees_its_gpu_and_the_one_that_waits_says_so_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said, one, looks = FORK.Queue(), Gpus(("GPU-a",)), list[float]()
    holder = started(hold, tmp_path, one, said, 0, FORK.Event())
    said.get(timeout=60)

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            holder.kill()
        time.sleep(seconds)

    monkeypatch.setattr(devices, "time", SimpleNamespace(sleep=sleep))
    caplog.set_level(logging.INFO, "fedbayes")
    with claimed(CUDA, one, tmp_path) as execution:
        assert execution.device == "cuda:0" and len(looks) >= 3
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for a GPU: other jobs have GPU-a",
        "device cuda:0, GPU GPU-a",
    ]
    assert capsys.readouterr().err == "fedbayes: waiting for a GPU: other jobs have GPU-a\n"
    holder.join(60)


def is_free(locks: Path, gpus: Gpus, asked: str = "cuda") -> bool:
    """Whether a claim of another process is met at once; if not, it says that it waits."""
    found = FORK.Queue()

    def claim() -> None:
        devices.show = lambda line: found.put(False)
        with claimed(Execution(device=asked), gpus, locks):
            found.put(True)

    process = started(claim)
    free: bool = found.get(timeout=60)
    if not free:
        process.kill()
    process.join(60)
    return free


def test_a_lock_that_its_holder_removes_while_it_is_opened_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking the file: a third job would lock another file of that name."""
    lock, one, locked = fcntl.flock, Gpus(("GPU-a",)), list[int]()

    def flock(handle: int, operation: int) -> None:
        locked.append(handle)
        if len(locked) == 1:
            (tmp_path / "GPU-a.lock").unlink()
        lock(handle, operation)

    monkeypatch.setattr(devices.fcntl, "flock", flock)
    with claimed(CUDA, one, tmp_path):
        assert not is_free(tmp_path, one)


def test_a_gpu_is_the_same_whatever_its_number(tmp_path: Path) -> None:
    # As with CUDA_VISIBLE_DEVICES=0,1 and =1,2: the second job's number 0 is the first one's number 1.
    with claimed(CUDA, Gpus(("GPU-a", "GPU-b")), tmp_path) as first:
        with claimed(CUDA, Gpus(("GPU-b", "GPU-c")), tmp_path) as second:
            assert (first.device, second.device) == ("cuda:0", "cuda:0")
            assert not is_free(tmp_path, Gpus(("GPU-b", "GPU-a")))
            assert is_free(tmp_path, Gpus(("GPU-c",)))
        assert is_free(tmp_path, Gpus(("GPU-b",)))


def test_a_number_claims_exactly_that_gpu(tmp_path: Path) -> None:
    with claimed(Execution(device="cuda:1"), TWO, tmp_path) as execution:
        assert execution.device == "cuda:1"
        assert not is_free(tmp_path, TWO, "cuda:1") and is_free(tmp_path, TWO, "cuda:0")
        with claimed(CUDA, TWO, tmp_path) as other:
            assert other.device == "cuda:0"


def test_slurm_has_chosen_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two SLURM jobs may share a GPU, if SLURM says so; two jobs within one may not.
    one = Gpus(("GPU-a",))
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    with claimed(CUDA, one, tmp_path):
        assert not is_free(tmp_path, one)
        monkeypatch.setenv("SLURM_JOB_ID", "2")
        assert is_free(tmp_path, one)


@pytest.mark.parametrize(
    ("asked", "gpus", "device"),
    [("cpu", TWO, "cpu"), ("auto", NONE, "cpu"), ("auto", TWO, "cuda:0"), ("auto", Gpus((), mps=True), "cpu"),
     ("mps", Gpus((), mps=True), "mps"), ("cuda", TWO, "cuda:0")],
)  # fmt: skip
def test_what_is_asked_for_is_given(asked: str, gpus: Gpus, device: str, tmp_path: Path) -> None:
    with claimed(Execution(device=asked, chunk=3), gpus, tmp_path / "locks") as execution:
        assert execution == Execution(device=device, chunk=3)
    assert (tmp_path / "locks").exists() == (device != "cpu")


@pytest.mark.parametrize(
    ("job", "given", "asked", "device"),
    [("", None, "auto", "cuda:0"),
     ("7", None, "auto", "cpu"),
     ("7", "0,1", "auto", "cuda:0"),
     ("7", None, "cuda", "cuda:0")],
)  # fmt: skip
def test_in_a_slurm_job_auto_takes_a_gpu_only_where_slurm_gave_some(
    job: str, given: str | None, asked: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("SLURM_JOB_ID", job), ("CUDA_VISIBLE_DEVICES", given)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    with claimed(Execution(device=asked), TWO, tmp_path) as execution:
        assert execution.device == device


def test_the_one_gpu_of_a_mac_is_not_shared_and_the_cpu_is(tmp_path: Path) -> None:
    mac = Gpus((), mps=True)
    with claimed(Execution(device="mps"), mac, tmp_path):
        assert not is_free(tmp_path, mac, "mps") and is_free(tmp_path, mac, "cpu")


def test_what_a_mac_lacks_is_told_in_one_sentence(tmp_path: Path) -> None:
    # PyTorch's words.
    missing = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
    for words, kind in ((missing, ConfigError), ("another mistake", TypeError)):
        with pytest.raises(kind), claimed(Execution(device="mps"), Gpus((), mps=True), tmp_path):
            raise TypeError(words)
    with pytest.raises(TypeError), claimed(Execution(device="cuda"), TWO, tmp_path):
        raise TypeError(missing)


@pytest.mark.parametrize(
    ("asked", "gpus", "words"),
    [("cuda:7", TWO, "found 'cuda:7'; this job sees 2 GPUs: expected auto, cpu, cuda, cuda:0, cuda:1"),
     ("cuda", NONE, "found 'cuda'; this job sees no GPU: expected auto, cpu"),
     ("cuda:0", Gpus((), mps=True), "found 'cuda:0'; this job sees 1 GPU: expected auto, cpu, mps"),
     ("mps", NONE, "found 'mps'; this job sees no GPU: expected auto, cpu")],
)  # fmt: skip
def test_what_is_not_there_is_refused_in_one_sentence(asked: str, gpus: Gpus, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused, claimed(Execution(device=asked), gpus, tmp_path):
        pass
    assert str(refused.value) == f"execution.device: {words}"


def test_a_folder_of_locks_that_is_not_ours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="another user's folder"), claimed(CUDA, TWO, tmp_path):
        pass


def test_gpus_are_known_by_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid=f"id-{number}"))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert visible() == Gpus(("id-0", "id-1"))


def test_locks_are_on_this_machine_whatever_tmpdir_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = devices.lock_folder()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert devices.lock_folder() == before and str(os.getuid()) in before.name
