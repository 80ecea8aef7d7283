"""One owner of a run's folder, however many jobs believe they are at work on it.

A cluster may start a job again although the first one lives on: SLURM lost touch with the node's daemon, or Snakemake
was killed and its jobs were not. The job that started last is the owner. An older one finds out before it writes a
checkpoint or a result, and leaves without touching either.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from pathlib import Path

from fedbayes.io import write_text
from fedbayes.job import LeftToAnother


class TakenOver(LeftToAnother):
    """Another job has started on this run since; this one must not write any more."""


class Owner:
    """This process's claim to a run, kept beside its checkpoints; claiming takes it from whoever had it."""

    def __init__(self, folder: Path) -> None:
        self._file, self._token = folder / "owner", uuid.uuid4().hex
        write_text(self._file, self._token)

    def holds(self) -> bool:
        """Whether nobody has claimed the run since."""
        try:
            return self._file.read_text() == self._token
        except FileNotFoundError:
            return False

    def check(self) -> None:
        """Go on as the owner, or end."""
        if not self.holds():
            raise TakenOver("another job has taken over this run since; this one ends and leaves all files to it")

    def clear(self) -> None:
        """Remove the checkpoints and the claim of a finished run.

        A job that takes over meanwhile still needs them, and ends with the same bytes. So the claim goes last, and only
        while it is this process's own.
        """
        for kept in [path for path in self._file.parent.glob("*") if path.is_dir()]:
            if not self.holds():
                return
            shutil.rmtree(kept, ignore_errors=True)
        if self.holds():
            self._file.unlink(missing_ok=True)
            # Another job's claim may be on its way.
            with contextlib.suppress(OSError):
                self._file.parent.rmdir()
