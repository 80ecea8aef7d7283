"""What a plan will cost before anything starts: core-hours, memory and disk, by rates measured on finished runs.

A run's work is counted in *passes*: one sample through the network once, forwards. A training step takes three a sample
(forwards, and twice that backwards); a test takes one. Seconds are passes times the rate that `config/rates.csv` has
for the method, network and dataset. Rates were measured on one kind of processor beside other jobs, so an estimate is
good for the order of magnitude, not for a deadline.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedbayes.config import DatasetFacts
from fedbayes.plan import Plan, Run

RATES = "config/rates.csv"
PASSES_OF_A_STEP = 3
# Two jobs a run, `train` and `evaluate`: medians of what 85 smoke runs took beside their rounds (5.6 s) and of 14 whole
# evaluations of MNIST runs (9.5 s).
START_UP_SECONDS = 5.6 + 9.5
# Samples a client is taken to have where only the data can tell how many clients there are.
UNKNOWN_SAMPLES = 100
# A method that was never measured is taken to cost so many FedAvg steps a step.
GUESSED_FACTOR = 3.0
PLAIN = "fedavg"


@dataclass(frozen=True)
class Size:
    """How large a split is: clients, samples of all of them together, and whether that is known before it is made.

    `replicates` says how many federations share it, each of which has clients chosen of its own.
    """

    clients: int
    train: float
    test: float
    known: bool = True
    replicates: int = 1


@dataclass(frozen=True)
class Measured:
    """A row of `config/rates.csv`: finished runs of a method and network on a dataset, summed up.

    Attributes:
        method: file name of the method.
        network: name of the network.
        dataset: what it ran on.
        runs: how many runs were measured.
        passes: their passes, in thousands.
        seconds: their seconds.
        memory_mb: the most any of them held; 0 where that was not written down.
        disk_mb: files of a run for each client of its split, without `server_mb`; the most of any; 0 likewise.
        source: how it was measured.
        server_mb: what a run keeps of its server, which more clients do not make larger; the most of any.
    """

    method: str
    network: str
    dataset: str
    runs: int
    passes: float
    seconds: float
    memory_mb: float
    disk_mb: float
    source: str
    server_mb: float


COLUMNS = [field.name for field in fields(Measured)]


@dataclass(frozen=True)
class Cost:
    """What a run will take; `guessed` where its rate or the size of its split is not known."""

    seconds: float
    memory_mb: float
    disk_mb: float
    guessed: bool


def size_of(plan: Plan, run: Run) -> Size:
    """Size of a run's split: as committed, or as near as the dataset's counts tell."""
    row = plan.committed_splits.get(plan.split_file(run))
    if row:
        found = Size(int(row["clients"]), float(row["train"]), float(row["test"]))
    else:
        found = _size_by_rule(run.split.population, run.spec, plan.datasets[run.dataset])
    return replace(found, replicates=run.split.replicates)


def _size_by_rule(population: int | None, spec: Mapping[str, Any], facts: DatasetFacts) -> Size:
    """Size of a split that is not committed, from the numbers of its rule."""
    # Of a joined split, the clients that train.
    split = spec["split"].get("trained", spec["split"])
    clients = population or spec["training"]["clients_per_round"]
    if "train_per_class" in split:
        classes = clients * split["labels_per_client"]
        return Size(clients, classes * split["train_per_class"], classes * split["test_per_class"])
    if "train_per_client" in split:
        return Size(clients, clients * split["train_per_client"], clients * split["test_per_client"])
    counts = facts.counts(split.get("pool", "all"))
    known = population is not None and counts is not None
    samples = sum(counts) if known and counts else UNKNOWN_SAMPLES * clients
    if split.get("samples_per_client"):
        samples = split["samples_per_client"] * clients
    share = split.get("train_share") or 0.8
    return Size(clients, share * samples, (1 - share) * samples, known)


def training_passes(spec: Mapping[str, Any], size: Size) -> float:
    """Passes of all rounds: clients that train, times their steps, times what a step takes."""
    training = spec["training"]
    chosen = training["clients_per_round"] * size.replicates
    clients = size.clients if training["trains"] == "all" else min(chosen, size.clients)
    return float(training["rounds"] * clients * visit_passes(spec, size))


def visit_passes(spec: Mapping[str, Any], size: Size) -> float:
    """Passes of one local visit: the steps of a client of mean size, times what a step takes."""
    local, own = spec["local"], max(size.train / size.clients, 1.0)
    batch = own if local["order"] == "full" else min(local["batch"], own)
    steps = local["amount"] * (1.0 if local["unit"] == "batches" else own / batch)
    return float(steps * batch * PASSES_OF_A_STEP)


def test_passes(spec: Mapping[str, Any], size: Size, whole: float) -> float:
    """Passes of all tests: before the first round, after every n-th, and after the last.

    Personal models may have a schedule of their own; `personal: fine-tuned` adds a local visit of every client, and a
    protocol that tests on training samples, too, adds those of all clients for each model.

    Args:
        spec: the run's specification.
        size: of its split.
        whole: samples of the dataset's own test part, for a global model that is tested there.
    """
    rounds, protocol = spec["training"]["rounds"], spec["protocol"]
    every = {"gm": protocol["every"], "pm": protocol.get("pm_every", protocol["every"])}
    samples = {"gm": whole if protocol.get("gm_tests") == "whole" else size.test, "pm": size.test}
    if protocol.get("personal") == "fine-tuned":
        samples["pm"] += size.clients * visit_passes(spec, size)
    beside = size.train if protocol.get("on_training") else 0.0
    return float(sum((1 + -(-rounds // every[model])) * (samples[model] + beside) for model in protocol["models"]))


def passes(plan: Plan, run: Run) -> float:
    """All passes of a run."""
    size = size_of(plan, run)
    whole = float(sum(plan.datasets[run.dataset].test_per_class or ()))
    return training_passes(run.spec, size) + test_passes(run.spec, size, whole)


class Rates:
    """The table of measured rates, and what is taken where it has no row."""

    def __init__(self, rows: Iterable[Measured]) -> None:
        self.rows = list(rows)

    @classmethod
    def read(cls, root: Path) -> Rates:
        """The table below `root`; empty where there is none."""
        file = root / RATES
        if not file.exists():
            return cls([])
        with file.open(encoding="utf-8", newline="") as lines:
            return cls(_measured(row) for row in csv.DictReader(lines))

    def cost(self, plan: Plan, run: Run) -> Cost:
        """What a run takes from its start to its files."""
        network = run.spec["network"]["name"]
        rows, factor, guessed = self._like(run.method, network, run.dataset)
        seconds = factor * _pace(rows) * passes(plan, run) / 1000 + START_UP_SECONDS
        # Frozen rows know hours only, so these two look at every dataset of the method and network.
        alike = [row for row in self.rows if (row.method, row.network) == (run.method, network)] or rows
        size = size_of(plan, run)
        memory = max((row.memory_mb for row in alike), default=0.0)
        disk = max((row.disk_mb for row in alike), default=0.0) * size.clients
        disk += max((row.server_mb for row in alike), default=0.0)
        return Cost(seconds, memory, disk, guessed or not size.known)

    def _like(self, method: str, network: str, dataset: str) -> tuple[Sequence[Measured], float, bool]:
        """The nearest measured rows, how many of their passes one of these costs, and whether that is a guess.

        Nearest first: this very dataset; the method and network on others; FedAvg on the network, times what the method
        cost beside FedAvg elsewhere; anything at all.
        """
        both = [row for row in self.rows if (row.method, row.network) == (method, network)]
        here = [row for row in both if row.dataset == dataset]
        if here or both:
            return here or both, 1.0, False
        plain = [row for row in self.rows if (row.method, row.network) == (PLAIN, network)]
        return plain or self.rows, self._beside_plain(method), True

    def _beside_plain(self, method: str) -> float:
        """Seconds of a method for one of FedAvg, on the networks that both were measured with."""
        own = [row for row in self.rows if row.method == method]
        plain = [row for row in self.rows if row.method == PLAIN and row.network in {o.network for o in own}]
        return _pace(own) / _pace(plain) if own and plain else GUESSED_FACTOR


def _measured(row: Mapping[str, str]) -> Measured:
    numbers = {name: float(row[name]) for name in ("passes", "seconds", "memory_mb", "disk_mb", "server_mb")}
    return Measured(row["method"], row["network"], row["dataset"], int(row["runs"]), **numbers, source=row["source"])


def _pace(rows: Sequence[Measured]) -> float:
    """Seconds for a thousand passes; long runs count for more than short ones."""
    passes_ = sum(row.passes for row in rows)
    return sum(row.seconds for row in rows) / passes_ if passes_ else 0.0


@dataclass(frozen=True)
class Line:
    """A line of the summary; costs are of the runs that are left."""

    name: str
    runs: int
    done: int
    hours: float
    memory_mb: float
    disk_mb: float
    guessed: int

    def cells(self) -> tuple[str, ...]:
        """The line as people read it."""
        hours = f"{self.hours:,.1f}" if self.hours < 100 else f"{self.hours:,.0f}"
        memory, disk = f"{self.memory_mb / 1000:.1f} GB", f"{self.disk_mb / 1000:,.1f} GB"
        left = self.runs - self.done
        return (self.name, *(f"{n:,}" for n in (self.runs, self.done, left)), hours, memory, disk, f"{self.guessed:,}")


HEADINGS = ("paper", "runs", "done", "to do", "core-hours left", "memory a job", "disk left", "guessed")


def add_up(name: str, runs: Iterable[Run], costs: Mapping[str, Cost], folder: Path) -> Line:
    """The line of some runs: those whose `evaluation.parquet` is below `folder` are done and cost nothing."""
    runs = list(runs)
    left = [costs[run.id] for run in runs if not (folder / run.folder / "evaluation.parquet").exists()]
    return Line(
        name,
        len(runs),
        len(runs) - len(left),
        sum(cost.seconds for cost in left) / 3600,
        max((cost.memory_mb for cost in left), default=0.0),
        sum(cost.disk_mb for cost in left),
        sum(cost.guessed for cost in left),
    )


def summary(plan: Plan, rates: Rates, folder: Path) -> str:
    """The whole plan's cost as a table: a line a paper and the total.

    Args:
        plan: what is asked for.
        rates: what was measured.
        folder: the working directory, which holds `results/`.
    """
    costs = {run.id: rates.cost(plan, run) for run in plan.runs.values()}
    lines = [add_up(paper, plan.runs_of(paper), costs, folder) for paper in plan.papers]
    total = add_up("total", plan.runs.values(), costs, folder)
    rows = [HEADINGS, *(line.cells() for line in (*lines, total))]
    notes = f"Estimates by {RATES}; a paper's line has all its runs, the total has those that papers share once."
    if total.guessed:
        notes += "\nguessed: their method was never measured with their network, or only the data can count clients."
    return "\n".join([f"Plan at scale {plan.config.scale}:", *aligned(rows), notes])


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines of a table: the first column to the left, all others, which are numbers, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])


def write_rows(file: Path, rows: Iterable[Measured]) -> None:
    """Write the table, ordered by its first three columns."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(map(astuple, sorted(rows, key=lambda row: (row.method, row.network, row.dataset))))
