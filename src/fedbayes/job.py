"""What every job of the workflow does around its one call: a log file, and one sentence where a user can help."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbayes.attempts import CRASHED, FORMAT, ended, history_of, started
from fedbayes.reading import ConfigError


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
    try:
        yield
        outcome = "finished"
    except ConfigError as error:
        outcome = "failed"
        logging.error("%s", error)
        sys.exit(f"fedbayes: {error}")
    except Exception:
        outcome = "failed"
        logging.exception(CRASHED)
        raise
    except KeyboardInterrupt:
        logging.warning("stopped by SIGINT")
        raise
    finally:
        logging.info(ended(outcome))


@contextmanager
def alone(lock: Path) -> Iterator[str]:
    """Wait until no other process holds `lock`: MLflow's store takes one writer, whatever Snakemake was told.

    Gives the name under which the holder may be known to others; it is kept in the file, so that whoever holds the lock
    next can tell what a killed predecessor left.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
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


def show(line: str) -> None:
    """A line for the person who watches the terminal."""
    print(line, file=sys.stderr, flush=True)
