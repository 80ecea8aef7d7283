"""How long a service of the cluster has not answered, and when that has been long enough."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

LOG = logging.getLogger("snakemake.logging")


class Silence:
    """How long a service has not answered."""

    def __init__(self, what: str, patience: float, error: type[Exception], clock: Callable[[], float]) -> None:
        self.what, self.patience, self.error, self.clock = what, patience, error, clock
        self.since: float | None = None
        self._lock = threading.Lock()  # jobs are submitted by several threads

    def broken(self) -> None:
        """It has answered."""
        with self._lock:
            since, self.since = self.since, None
        if since is not None:
            LOG.warning(f"{self.what} answers again after {self.clock() - since:.0f} s.")

    def goes_on(self, why: str) -> None:
        """It has not: say so once, and end the run when patience is over."""
        with self._lock:
            since = self.since
            if since is None:
                self.since = self.clock()
        if since is None:
            LOG.warning(f"{self.what} does not answer ({why}); waiting up to {self.patience:.0f} s.")
        elif (silent := self.clock() - since) > self.patience:
            raise self.error(
                f"{self.what} has not answered for {silent:.0f} s ({why}), longer than "
                f"execution.slurm_patience_seconds = {self.patience:.0f} in config/config.yaml allows. Running jobs go "
                "on; when the cluster is back, type the same command again: it cancels them and goes on from their "
                "checkpoints, and finished runs are kept."
            )
