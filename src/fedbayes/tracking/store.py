"""The MLflow store: opened once, one experiment per paper, runs found by tag and written whole.

A server may have several publishers, in folders and on machines that know nothing of each other, and MLflow has no lock
for them. So nobody prevents that a run is written twice: everybody looks again after writing, and all agree on which of
two runs stays (`settle`). A run that is being written says by whom and since when, so that a publisher clears away what
it left itself when it was killed, and nothing that another is at work on.
"""

from __future__ import annotations

import getpass
import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import requests
from mlflow.entities import DatasetInput, Experiment, Metric, Param, Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from fedbayes.receipts import UnreachableError
from fedbayes.tracking.reach import is_away, reaching, sqlite_file, unreachable, unusable

# Raised by hand when names or contents of what is published change, so that older publications are renewed.
LAYOUT = 2

CELL = "fedbayes.cell"  # which cell a run belongs to; on parents and children
RUN = "fedbayes.run"  # which run of which cell; on children
DIGEST = "fedbayes.digest"  # what it was made from; until it is complete, who writes it
WRITING = "writing"  # first word of that tag of an incomplete run, before its publisher and the time in seconds
PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"

MOST_METRICS = 1000  # MLflow's limits for one call
MOST_PARAMS = 100
MOST_LOOKS = 10
ABANDONED_SECONDS = 3600  # nobody writes one run for so long

Artifact = tuple[Path, str | None]  # a file of ours and the folder it is shown in


@dataclass(frozen=True)
class PaperInfo:
    """What MLflow shows of a paper; `key` is the name of its file in `config/papers/`."""

    key: str
    title: str
    citation: str
    url: str


@dataclass(frozen=True)
class Entry:
    """One MLflow run as it should stand in the store; times in milliseconds."""

    name: str
    digest: str
    tags: dict[str, str]
    params: dict[str, str]
    start: int
    end: int
    status: str = "FINISHED"
    metrics: Sequence[Metric] = ()
    datasets: list[DatasetInput] = field(default_factory=list)
    artifacts: Sequence[Artifact] = ()


def open_store(uri: str) -> None:
    """Make the SQLite store if there is none, or see that the server or database answers.

    Must have ended before anything else opens the store: two processes cannot create it at once.
    """
    if "://" not in uri or uri.startswith("file:"):
        raise unusable(uri, "it is a folder")
    # MLflow announces every table it creates; its warnings and errors still show.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
    with reaching(uri):
        try:
            MlflowClient(uri).search_experiments(max_results=1)
        except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
            if is_away(error):
                raise
            raise unusable(uri, error) from None


def settle(look: Callable[[bool], bool]) -> None:
    """Look and write until a look finds nothing to do, because another publisher may be at work on the same runs.

    Args:
        look: does what is to be done and says whether that was anything. It is told whether it is the first look: later
            ones complete what is missing and leave what another publisher put there, or the two would take turns.
    """
    for number in range(MOST_LOOKS):
        try:
            if not look(number == 0):
                return
        except MlflowException as error:
            if "must be in the 'active' state" not in error.message:
                raise
            # Of two runs, another publisher has just taken away the one we were about to change: look again.
    raise UnreachableError("other publishers keep changing the same runs")


class Shelf:
    """The experiment of one paper: finds what is there, puts entries, takes away what an entry replaces."""

    def __init__(self, uri: str, publisher: str, paper: PaperInfo) -> None:
        self.uri, self.publisher, self.client = uri, publisher, MlflowClient(uri)
        self.experiment = _experiment(self.client, uri, paper)
        self.describe(NOTE, _description(paper))

    def describe(self, key: str, text: str) -> None:
        """Set a tag of the experiment unless it says so already."""
        if self.experiment.tags.get(key) != text:
            self.client.set_experiment_tag(self.experiment.experiment_id, key, text)

    def runs(self, tag: str, value: str) -> list[Run]:
        """All complete runs of ours that carry a tag with this value; of two of one identity, the first by name.

        What an interrupted publication left, incomplete or double, is taken away on the way.
        """
        kept: dict[str, Run] = {}
        for run in sorted(self.search(f"tags.`{tag}` = '{value}'"), key=lambda run: str(run.info.run_id)):
            tags = run.data.tags
            if CELL not in tags:
                continue  # somebody's own run
            identity, digest = tags.get(RUN, tags[CELL]), tags.get(DIGEST, f"{WRITING} unknown 0")
            incomplete = digest.startswith(WRITING)
            if incomplete and self.is_anothers_work(digest):
                continue
            if incomplete or identity in kept:
                self.client.delete_run(run.info.run_id)
            else:
                kept[identity] = run
        return list(kept.values())

    def is_anothers_work(self, claim: str) -> bool:
        """Whether another publisher is writing a run: one process at a time writes under a publisher's name."""
        _, publisher, since = claim.split()
        return publisher != self.publisher and time.time() - float(since) < ABANDONED_SECONDS

    def search(self, query: str) -> Iterator[Run]:
        """All runs of the experiment that fit a query."""
        page = self.client.search_runs([self.experiment.experiment_id], query)
        yield from page
        while page.token:
            page = self.client.search_runs([self.experiment.experiment_id], query, page_token=page.token)
            yield from page

    def put(self, entry: Entry, old: Run | None = None) -> str:
        """Write an entry whole and give its run's id; `old`, if given, is the run it replaces."""
        tags = entry.tags | _user() | {DIGEST: f"{WRITING} {self.publisher} {time.time():.0f}"}
        created = self.client.create_run(self.experiment.experiment_id, entry.start, tags, entry.name)
        run: str = created.info.run_id
        params = [Param(name, value) for name, value in entry.params.items()]
        for first in range(0, len(params), MOST_PARAMS):
            self.client.log_batch(run, params=params[first : first + MOST_PARAMS])
        for first in range(0, len(entry.metrics), MOST_METRICS):
            self.client.log_batch(run, metrics=entry.metrics[first : first + MOST_METRICS])
        if entry.datasets:
            self.client.log_inputs(run, entry.datasets)
        for file, folder in entry.artifacts:
            self.show(run, file, folder)
        self.client.set_terminated(run, entry.status, entry.end)
        self.client.set_tag(run, DIGEST, entry.digest)
        if old is not None:
            self.client.delete_run(old.info.run_id)
        return run

    def show(self, run: str, file: Path, folder: str | None) -> None:
        """Copy a file of ours to a run's artifacts, which may lie where we cannot write."""
        try:
            self.client.log_artifact(run, str(file), folder)
        except requests.RequestException:
            raise
        except OSError as error:
            if not file.exists():
                raise
            raise unreachable(self.uri, error) from error

    def adopt(self, parent: str, children: Sequence[Run]) -> bool:
        """Make runs the children of a parent and say whether any was not; those that are already stay untouched."""
        strangers = [child for child in children if child.data.tags.get(PARENT) != parent]
        for child in strangers:
            self.client.set_tag(child.info.run_id, PARENT, parent)
        return bool(strangers)


def stands(run: Run | None, digest: str) -> bool:
    """Whether a run was published completely from just this."""
    return run is not None and run.data.tags.get(DIGEST) == digest


def digest_of(text: str, files: Sequence[Path]) -> str:
    """Twelve hex digits of what an entry is made from: words, files and the layout of what is published."""
    parts = [f"layout {LAYOUT}".encode(), text.encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:12]


def _user() -> dict[str, str]:
    """Who publishes, for people alone: it is in no digest. A process in a container may belong to nobody by name."""
    try:
        return {"mlflow.user": getpass.getuser()}
    except (KeyError, OSError):
        return {}


def _experiment(client: MlflowClient, uri: str, paper: PaperInfo) -> Experiment:
    """The experiment of a paper, made or brought back from the bin if need be."""
    found = client.get_experiment_by_name(paper.key)
    if found is None:
        try:
            return client.get_experiment(client.create_experiment(paper.key, _artifact_folder(uri, paper.key)))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            return _experiment(client, uri, paper)  # another publisher has just made it
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found


def _artifact_folder(uri: str, key: str) -> str | None:
    """`mlruns/<paper>` beside an SQLite file, wherever the publishing process stands; a server's own choice else."""
    if not uri.startswith("sqlite:///"):
        return None
    return (sqlite_file(uri).absolute().parent / "mlruns" / key).as_uri()


def _description(paper: PaperInfo) -> str:
    return (
        f"{paper.title}\n\n{paper.citation} <{paper.url}>\n\n"
        "A *parent run* is one cell of the paper's tables: setting / method (preset) / experiment @ scale, with the "
        "mean and spread over seeds (`best/...`), the printed number (`published/...`), the `difference/...` and the "
        "tag `verdict`; the picture under `splits/` shows which client holds how many samples of which label. Its "
        "*child runs* are the seeds, with metrics for every round. The run `report @ scale` holds "
        "the tables and figures. The saved view *Ours beside theirs* shows the columns to compare.\n\n"
        "Metrics are named `model/condition/metric`: `pm` is the personal model of each client, `gm` the global one; "
        "plain names pool the test samples of all clients, `/mean` and `/worst` are over clients. `final/` is the last "
        "round, `best/` the best round in the paper's window (`best/gm/clean/round`). Accuracies are fractions."
    )
