"""A request to stop: SLURM's SIGTERM before a time limit or a preemption, or Ctrl-C.

A training job that is asked to stop leaves its last completed round as a checkpoint and ends. The round under way is
cut short, because the seconds between SIGTERM and SIGKILL are few; what follows a round (tests, rows, files) is not,
because half of it would be in the checkpoint.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """Raised where a request to stop cuts work short; no `except Exception` on the way up may swallow it."""


class StopSign:
    """Whether somebody has asked this process to stop, and by which signal."""

    def __init__(self) -> None:
        self.asked: str | None = None
        self._cut_short = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        again, self.asked = self.asked, signal.Signals(number).name
        if self._cut_short:
            # At once, so that a second signal does not cut the checkpoint short.
            self._cut_short = False
            raise Stopped
        if again == self.asked == "SIGINT":
            raise KeyboardInterrupt  # a person who does not want to wait for a long test

    @contextmanager
    def cutting_short(self) -> Iterator[None]:
        """A block that a request ends at once, wherever it is; one that came before does so at its first line."""
        self._cut_short = True
        try:
            self.heed()
            yield
        finally:
            self._cut_short = False

    def heed(self) -> None:
        """Stop here if it was asked for."""
        if self.asked is not None:
            raise Stopped


@contextmanager
def listening() -> Iterator[StopSign]:
    """A sign that this process's signals raise; afterwards they do what they did before."""
    sign = StopSign()
    before = {number: signal.signal(number, sign.receive) for number in SIGNALS}
    try:
        yield sign
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
