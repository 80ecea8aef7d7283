"""What every job of the workflow does around its one call: a log file, and one sentence where a user can help."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from fedbayes.attempts import CRASHED, FORMAT, ended, history_of, started
from fedbayes.preemption import back_into_queue
from fedbayes.reading import ConfigError


class LeftToAnother(Exception):
    """Another job does this one's work: it ends with a sentence, and nobody has made a mistake."""


class Terminated(BaseException):
    """SIGTERM has come; no `except Exception` on the way up may swallow it."""


@contextmanager
def job(log_file: str, history: bool = False) -> Iterator[None]:
    """Log into `log_file`; a `ConfigError` ends the job with its sentence, any other error with its traceback.

    The log says who works on the job and how that ended, unless the process is killed.

    Args:
        log_file: what the rule declares; Snakemake shows it whole if the job fails.
        history: whether all that is said (DEBUG as well) is also kept over all attempts, in a file beside it.
    """
    log = Path(log_file)
    log.parent.mkdir(parents=True, exist_ok=True)
    handlers = [logging.FileHandler(log, encoding="utf-8")]
    handlers[0].setLevel(logging.INFO)
    if history:
        handlers.append(logging.FileHandler(history_of(log), encoding="utf-8"))
    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=handlers, force=True)
    logging.getLogger("fedbayes").setLevel(logging.DEBUG)
    logging.info(started(os.environ))
    outcome = "stopped"
    # Until the last line is written, because SLURM sends SIGTERM once more to a job that it queues again.
    with _heeding_sigterm():
        try:
            yield
            outcome = "finished"
        except ConfigError as error:
            outcome = "failed"
            logging.error("%s", error)
            sys.exit(f"fedbayes: {error}")
        except LeftToAnother as error:
            logging.warning("%s", error)
            sys.exit(f"fedbayes: {error}")
        except Exception:
            outcome = "failed"
            logging.exception(CRASHED)
            raise
        except KeyboardInterrupt:
            logging.warning("stopped by SIGINT")
            raise
        except Terminated:
            logging.warning("stopped by SIGTERM")
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if said := back_into_queue(got_on=False):
                logging.warning("%s", said)
            sys.exit("fedbayes: stopped by SIGTERM")
        finally:
            logging.info(ended(outcome))


@contextmanager
def _heeding_sigterm() -> Iterator[None]:
    """A block that SIGTERM ends with `Terminated`; a second one ends the process at once."""

    def receive(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    before = signal.signal(signal.SIGTERM, receive)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def alone(lock: Path) -> Iterator[str]:
    """Wait until no other process holds `lock`: MLflow's store takes one writer, whatever Snakemake was told.

    Gives the name under which the holder may be known to others; it is kept in the file, so that whoever holds the lock
    next can tell what a killed predecessor left.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+", encoding="utf-8") as handle:
        try:
            _lock(handle)
        except OSError as error:
            # Some shared file systems have no locks. Within one Snakemake publishing is serial without it.
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            logging.warning("%s cannot be locked (%s): run one Snakemake at a time here", lock, error)
        handle.seek(0)
        name = handle.read()
        if not name:
            name = uuid.uuid4().hex[:12]
            handle.write(name)
            handle.flush()
        yield name


def _lock(handle: IO[str]) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logging.info("waiting: another job publishes to MLflow")
        show("fedbayes: waiting: another job publishes to MLflow")
        fcntl.flock(handle, fcntl.LOCK_EX)


def show(line: str) -> None:
    """A line for the person who watches the terminal."""
    print(line, file=sys.stderr, flush=True)
