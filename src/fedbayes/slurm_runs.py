"""The Snakemakes that have submitted jobs to SLURM from this folder, and which of them have ended.

Each has a file, named after what its jobs are called in SLURM's queue, and holds a lock on it for as long as it lives:
the kernel lets go of the lock however the process ends. Several may be at work in one folder, on different targets.
Some shared file systems have no locks; there the host and the number of the process, which are in the file, must tell.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import IO

import psutil

FOLDER = Path(".snakemake/slurm_runs")
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def begin(name: str) -> IO[str]:
    """Say that this process submits jobs by a name, until the file that is returned is closed or the process ends."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    # It gets its name when it is locked: nobody shall take it for that of one that has ended.
    unnamed = FOLDER / f".{name}"
    file = unnamed.open("w", encoding="utf-8")
    print(socket.gethostname(), os.getpid(), file=file, flush=True)
    _lock(file, fcntl.LOCK_EX)
    unnamed.rename(FOLDER / name)
    return file


def ended() -> list[str]:
    """The names of those that have ended and that nobody has forgotten yet."""
    return [file.name for file in _files(Path()) if not _lives(file)]


def may_live(directory: Path) -> bool:
    """Whether one that submits jobs from a working directory is alive, as far as that is known here."""
    return any(_lives(file) for file in _files(directory))


def forget(name: str) -> None:
    """Nothing is left to do about one that has ended."""
    (FOLDER / name).unlink(missing_ok=True)


def _files(directory: Path) -> list[Path]:
    return sorted((directory / FOLDER).glob("[!.]*"))


def _lives(file: Path) -> bool:
    try:
        with file.open("r+", encoding="utf-8") as handle:
            # Shared, so that two who ask at the same time do not take each other for its owner.
            locked = _lock(handle, fcntl.LOCK_SH)
            words = handle.read().split()
    except (FileNotFoundError, PermissionError):
        return True  # somebody else has just forgotten it, or it is another user's, whose jobs are not ours to cancel
    if locked is not None:
        return not locked
    host, process = words[0], int(words[1])
    # Of another machine's processes nothing is known: better to leave them their jobs.
    return host != socket.gethostname() or psutil.pid_exists(process)


def _lock(file: IO[str], kind: int) -> bool | None:
    """Whether a file could be locked; None where there are no locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return None
    return True
