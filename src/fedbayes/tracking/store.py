"""The MLflow store: opened once, one experiment per paper, runs found by tag and written whole."""

from __future__ import annotations

import hashlib
import logging
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlflow.entities import DatasetInput, Experiment, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from fedbayes.reading import ConfigError, complain

# Raised by hand when names or contents of what is published change, so that older publications are renewed.
LAYOUT = 1

CELL = "fedbayes.cell"  # which cell a run belongs to; on parents and children
RUN = "fedbayes.run"  # which run of which cell; on children
DIGEST = "fedbayes.digest"  # what it was made from; written last, so a run without it is incomplete
PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"

MOST_METRICS = 1000  # MLflow's limits for one call
MOST_PARAMS = 100
ANSWER_SECONDS = 10


@dataclass(frozen=True)
class PaperInfo:
    """What MLflow shows of a paper; `key` is the name of its file in `config/papers/`."""

    key: str
    title: str
    citation: str
    url: str


@dataclass(frozen=True)
class Entry:
    """One MLflow run as it should stand in the store; times in milliseconds, artifacts as (file, folder shown)."""

    name: str
    digest: str
    tags: dict[str, str]
    params: dict[str, str]
    start: int
    end: int
    status: str = "FINISHED"
    metrics: Sequence[Metric] = ()
    datasets: list[DatasetInput] = field(default_factory=list)
    artifacts: Sequence[tuple[Path, str | None]] = ()


def open_store(uri: str) -> None:
    """Make the SQLite store if there is none, or see that the server or database answers.

    Must have ended before anything else opens the store: two processes cannot create it at once.
    """
    if "://" not in uri or uri.startswith("file:"):
        raise _unusable(uri, "it is a folder")
    if uri.startswith(("http://", "https://")):
        _ask_server(uri)
    # MLflow announces every table it creates; its warnings and errors still show.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
    try:
        MlflowClient(uri).search_experiments(max_results=1)
    except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
        raise _unusable(uri, str(error).strip().split("\n")[0]) from None


def _ask_server(uri: str) -> None:
    """One quick question, because MLflow itself repeats an unanswered one for minutes."""
    try:
        urllib.request.urlopen(uri.rstrip("/") + "/health", timeout=ANSWER_SECONDS).close()
    except urllib.error.HTTPError:
        return  # a server is there; whether it lets us in is seen next
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise _unusable(uri, f"no answer ({getattr(error, 'reason', error)})") from None


def _unusable(uri: str, why: str) -> ConfigError:
    expected = "expected the address of a running MLflow server or sqlite:///<file>"
    return complain("MLFLOW_TRACKING_URI", "", f"the MLflow store {uri!r} cannot be used: {why}; {expected}")


class Shelf:
    """The experiment of one paper: finds what is there, puts entries, takes away what an entry replaces."""

    def __init__(self, uri: str, paper: PaperInfo) -> None:
        self.client = MlflowClient(uri)
        self.experiment = _experiment(self.client, uri, paper)
        self.describe(NOTE, _description(paper))

    def describe(self, key: str, text: str) -> None:
        """Set a tag of the experiment unless it says so already."""
        if self.experiment.tags.get(key) != text:
            self.client.set_experiment_tag(self.experiment.experiment_id, key, text)

    def runs(self, tag: str, value: str) -> list[Run]:
        """All runs of ours that carry a tag with this value.

        What an interrupted publication left, incomplete or double, is taken away on the way.
        """
        kept: dict[str, Run] = {}
        for run in self.search(f"tags.`{tag}` = '{value}'"):
            tags = run.data.tags
            if CELL not in tags:
                continue  # somebody's own run
            identity = tags.get(RUN, tags[CELL])
            if DIGEST not in tags or identity in kept:
                self.client.delete_run(run.info.run_id)
            else:
                kept[identity] = run
        return list(kept.values())

    def search(self, query: str) -> Iterator[Run]:
        """All runs of the experiment that fit a query."""
        page = self.client.search_runs([self.experiment.experiment_id], query)
        yield from page
        while page.token:
            page = self.client.search_runs([self.experiment.experiment_id], query, page_token=page.token)
            yield from page

    def put(self, entry: Entry, old: Run | None = None) -> str:
        """Write an entry whole and give its run's id; `old`, if given, is the run it replaces."""
        run: str = self.client.create_run(
            self.experiment.experiment_id, entry.start, entry.tags, entry.name
        ).info.run_id
        params = [Param(name, value) for name, value in entry.params.items()]
        for first in range(0, len(params), MOST_PARAMS):
            self.client.log_batch(run, params=params[first : first + MOST_PARAMS])
        for first in range(0, len(entry.metrics), MOST_METRICS):
            self.client.log_batch(run, metrics=entry.metrics[first : first + MOST_METRICS])
        if entry.datasets:
            self.client.log_inputs(run, entry.datasets)
        for file, folder in entry.artifacts:
            self.client.log_artifact(run, str(file), folder)
        self.client.set_terminated(run, entry.status, entry.end)
        self.client.set_tag(run, DIGEST, entry.digest)
        if old is not None:
            self.client.delete_run(old.info.run_id)
        return run

    def add(self, run: str, metrics: dict[str, float], tags: dict[str, str], time: int) -> None:
        """Add single values to a run that stands."""
        points = [Metric(name, value, time, 0) for name, value in metrics.items()]
        self.client.log_batch(run, points, tags=[RunTag(key, value) for key, value in tags.items()])

    def adopt(self, parent: str, children: Sequence[Run]) -> None:
        """Make runs the children of a parent; those that are already stay untouched."""
        for child in children:
            if child.data.tags.get(PARENT) != parent:
                self.client.set_tag(child.info.run_id, PARENT, parent)


def stands(run: Run | None, digest: str) -> bool:
    """Whether a run was published completely from just this."""
    return run is not None and run.data.tags.get(DIGEST) == digest


def digest_of(text: str, files: Sequence[Path]) -> str:
    """Twelve hex digits of what an entry is made from: words, files and the layout of what is published."""
    parts = [f"layout {LAYOUT}".encode(), text.encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:12]


def _experiment(client: MlflowClient, uri: str, paper: PaperInfo) -> Experiment:
    """The experiment of a paper, made or brought back from the bin if need be."""
    found = client.get_experiment_by_name(paper.key)
    if found is None:
        found = client.get_experiment(client.create_experiment(paper.key, _artifact_folder(uri, paper.key)))
    elif found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found


def _artifact_folder(uri: str, key: str) -> str | None:
    """`mlruns/<paper>` beside an SQLite file, wherever the publishing process stands; a server's own choice else."""
    if not uri.startswith("sqlite:///"):
        return None
    return (Path(uri.removeprefix("sqlite:///")).absolute().parent / "mlruns" / key).as_uri()


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
