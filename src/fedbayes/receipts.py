"""Receipts of what was published to an MLflow store, and of what was missed because the store could not be reached.

Tracking is a view of the results, so a store that is down fails no job: the job leaves a receipt that says `missed` and
why. To Snakemake that is the file of a finished job, so what was missed is asked for under the next name: `run.json`,
`run.2.json`, `run.3.json`. No receipt is deleted or changed while planning, because a dry run may look at a campaign
that is under way. Light enough for planning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedbayes.io import read_json, write_json
from fedbayes.job import show


class UnreachableError(Exception):
    """The store cannot be reached now, and nobody has to change anything for it to work later."""


@contextmanager
def receipt(file: Path, content: Mapping[str, Any]) -> Iterator[None]:
    """Write `content` to `file` when the block ends, with a key `missed` where the store could not be reached.

    Any other error passes: only a store that is away is forgiven.
    """
    missed = {}
    try:
        yield
    except UnreachableError as error:
        missed = {"missed": str(error)}
        warning = f"not published to MLflow, will be with the next start: {file.name.split('.')[0]}: {error}"
        logging.warning("%s", warning)
        show(f"fedbayes: warning: {warning}")
    write_json(file, {**content, **missed})


def missed(files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Those receipts, with their contents, that say something was missed."""
    contents = {file: read_json(Path(file)) for file in files if Path(file).exists()}
    return {file: content for file, content in contents.items() if "missed" in content}


def due(file: str) -> str:
    """The receipt to ask for: the one of that name, or the first after it that does not say `missed`."""
    stem, attempt = file.removesuffix(".json"), 1
    while missed([file]):
        attempt += 1
        file = f"{stem}.{attempt}.json"
    return file


def need(files: Iterable[str]) -> None:
    """Means stand on published runs: where some of those were missed, the means must wait as well."""
    waiting = sum(len(content["runs"]) for content in missed(files).values())
    if waiting:
        raise UnreachableError(f"{waiting} of its runs could not be published")


def missed_words(files: Iterable[str]) -> str:
    """What to tell a user at the end: how much is not published, why, and how it will be. Empty if nothing is."""
    contents = missed(files).values()
    if not contents:
        return ""
    runs = sum(len(content["runs"]) for content in contents if "runs" in content)
    papers = [content["paper"] for content in contents if "paper" in content]
    parts = [f"{runs} run" if runs == 1 else f"{runs} runs"] if runs else []
    parts += [f"the means of {', '.join(papers)}"] if papers else []
    why = next(iter(contents))["missed"]
    return f"Not published to MLflow: {' and '.join(parts)} ({why}). The same command publishes them later."
