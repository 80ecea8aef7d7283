"""Which device a job runs on, and that no other job runs there: one GPU a job, never two jobs on one GPU.

Snakemake counts GPUs and the resource `gpu` keeps surplus jobs back, but it hands out no numbers. So every job takes
the first GPU that is free, under a lock that the kernel lets go of when the job ends, however it ends; a job that finds
none waits. Locks are files of this machine, named after what a GPU is and not after its number: numbers are those of
CUDA_VISIBLE_DEVICES, and two jobs may not see the same ones. SLURM has chosen a job's GPUs already, and may let several
jobs share one, so a lock there is the SLURM job's own. Who lets go of a lock removes its file, or every job of SLURM's
would leave one.

Apple's `mps` is a machine's one GPU and is claimed like any other, but only where it is asked for by name: it has no
float64, which some methods work in. The CPU is not claimed: Snakemake counts cores.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from fedbayes.config import Execution
from fedbayes.job import show
from fedbayes.reading import ConfigError

LOG = logging.getLogger("fedbayes")

# Seconds between two looks for a GPU that has become free.
LOOK_EVERY = 0.5


class Gpus(NamedTuple):
    """The GPUs this process sees."""

    cuda: tuple[str, ...]  # what each of them is, in the order of their numbers
    mps: bool = False


def visible() -> Gpus:
    """What PyTorch sees, by the GPUs' own identifiers (UUID)."""
    count = torch.cuda.device_count()
    return Gpus(
        tuple(str(torch.cuda.get_device_properties(number).uuid) for number in range(count)),
        torch.backends.mps.is_available(),
    )


def lock_folder() -> Path:
    """Where this user's locks are: on this machine, and the same whatever TMPDIR a shell or a job has."""
    return Path("/tmp") / f"fedbayes-gpus-{os.getuid()}"


@contextmanager
def claimed(execution: Execution, gpus: Gpus | None = None, locks: Path | None = None) -> Iterator[Execution]:
    """The same with the device that this job, and no other, has until the end of the block: `cpu`, `mps` or `cuda:N`.

    Args:
        execution: what is asked for.
        gpus: what there is; by default what PyTorch sees.
        locks: folder of the locks; by default this user's on this machine.
    """
    # Nobody asks PyTorch for GPUs where none is wanted: that takes a while.
    wanted = () if execution.device == "cpu" else candidates(execution.device, visible() if gpus is None else gpus)
    if not wanted:
        LOG.info("device cpu")
        yield execution.model_copy(update={"device": "cpu"})
        return
    with _first_free([identity for _, identity in wanted], locks or lock_folder()) as place:
        device, identity = wanted[place]
        LOG.info("device %s, GPU %s", device, identity)
        try:
            yield execution.model_copy(update={"device": device})
        except TypeError as error:
            if device != "mps" or "float64" not in str(error):
                raise
            raise ConfigError(
                "execution.device: found 'mps', whose GPUs have no float64, in which this method or network works in "
                "places; expected cpu (or cuda, on a machine that has one)"
            ) from error


def candidates(asked: str, gpus: Gpus) -> list[tuple[str, str]]:
    """Devices that would do, each with what it is; none where `auto` has no GPU. Refuses what is not there."""
    cuda = [(f"cuda:{number}", identity) for number, identity in enumerate(gpus.cuda)]
    mps = [("mps", "mps")] if gpus.mps else []
    if asked == "auto":
        # SLURM names there the GPUs that it gives to a job. What a job without any sees belongs to others.
        given = "SLURM_JOB_ID" not in os.environ or "CUDA_VISIBLE_DEVICES" in os.environ
        return cuda if given else []
    found = {"cuda": cuda, "mps": mps}.get(asked, [pair for pair in cuda if pair[0] == asked])
    if not found:
        there = [device for device, _ in cuda + mps]
        expected = ["auto", "cpu", *(["cuda"] if cuda else []), *there]
        seen = f"{len(there)} GPU{'s' if len(there) > 1 else ''}" if there else "no GPU"
        raise ConfigError(f"execution.device: found {asked!r}; this job sees {seen}: expected {', '.join(expected)}")
    return found


@contextmanager
def _first_free(identities: Sequence[str], folder: Path) -> Iterator[int]:
    """The place of one of some GPUs, taken for the time of the block."""
    files = _files(identities, folder)
    place, handle = _wait_for_one(files, identities)
    try:
        yield place
    finally:
        files[place].unlink(missing_ok=True)
        # By hand, because a process forked from this one would hold on to what is only closed here.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _files(identities: Sequence[str], folder: Path) -> list[Path]:
    """The lock of each GPU, in a folder that is this user's alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ConfigError(f"{folder}: found another user's folder; expected this user's own, for the locks of GPUs")
    job = os.environ.get("SLURM_JOB_ID")
    return [folder / f"{f'slurm{job}-' if job else ''}{identity}.lock" for identity in identities]


def _wait_for_one(files: Sequence[Path], identities: Sequence[str]) -> tuple[int, int]:
    """The place of the first file that could be locked, and what holds its lock."""
    told = False
    while True:
        for place, file in enumerate(files):
            if (handle := _locked(file)) is not None:
                return place, handle
        if not told:
            line = f"waiting for a GPU: other jobs have {', '.join(identities)}"
            LOG.info(line)
            show(f"fedbayes: {line}")
            told = True
        time.sleep(LOOK_EVERY)


def _locked(file: Path) -> int | None:
    """What holds the lock of a file from now on; None where another job has it."""
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        # Its last holder may have removed it since it was opened: the next job would lock another file of that name.
        if os.fstat(handle).st_nlink > 0:
            return handle
        os.close(handle)
