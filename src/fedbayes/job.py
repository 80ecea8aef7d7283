"""What every job of the workflow does around its one call: a log file, and one sentence where a user can help."""

from __future__ import annotations

import fcntl
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbayes.reading import ConfigError


@contextmanager
def job(log_file: str) -> Iterator[None]:
    """Log into `log_file`; a `ConfigError` ends the job with its sentence, any other error with its traceback."""
    Path(log_file).parent.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=log_file, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    try:
        yield
    except ConfigError as error:
        logging.error("%s", error)
        sys.exit(f"fedbayes: {error}")
    except Exception:
        logging.exception("the job failed")
        raise


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Wait until no other process holds `lock`: MLflow's store takes one writer, whatever Snakemake was told."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def show(line: str) -> None:
    """A line for the person who watches the terminal."""
    print(line, file=sys.stderr, flush=True)
