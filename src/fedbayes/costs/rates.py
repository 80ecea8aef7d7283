"""Measured rates, `config/rates.csv`, and what a run costs by them.

Seconds are passes times the rate of the method, network and dataset. Rates were measured on one kind of processor
beside other jobs, so an estimate is good for the order of magnitude, not for a deadline.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from math import prod
from pathlib import Path

from fedbayes.config import DatasetFacts
from fedbayes.costs.work import passes, size_of
from fedbayes.plan import Plan, Run

RATES = "config/rates.csv"
# Two jobs a run, `train` and `evaluate`: medians of what 85 smoke runs took beside their rounds (5.6 s) and of 14 whole
# evaluations of MNIST runs (9.5 s).
START_UP_SECONDS = 5.6 + 9.5
# A method that was never measured is taken to cost so many FedAvg steps a step.
GUESSED_FACTOR = 3.0
PLAIN = "fedavg"


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
        memory_clients: clients of the run that held the most; 0 where that was not written down.
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
    memory_clients: int


COLUMNS = [field.name for field in fields(Measured)]


@dataclass(frozen=True)
class Cost:
    """What a run will take; `guessed` where its rate or the size of its split is not known."""

    seconds: float
    memory_mb: float
    disk_mb: float
    guessed: bool


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
        size = size_of(plan, run)
        kept, server = self._files(run.method, network)
        return Cost(
            seconds,
            max(
                (_memory(row, kept, size.clients, plan, run.dataset) for row in self._held(run.method, network)),
                default=0.0,
            ),
            kept * size.clients + server,
            guessed or not size.known,
        )

    def _held(self, method: str, network: str) -> list[Measured]:
        """Rows that tell memory, of any dataset: of the method and network, else of FedAvg on it, else all."""
        known = [row for row in self.rows if row.memory_mb]
        both = [row for row in known if (row.method, row.network) == (method, network)]
        return both or [row for row in known if (row.method, row.network) == (PLAIN, network)] or known

    def _files(self, method: str, network: str) -> tuple[float, float]:
        """Megabytes of files that a run keeps for each client, and of its server.

        Frozen rows know hours only, so this looks at every dataset of the method and network. Where they were never
        measured together the server's are FedAvg's, and a client's are as many servers as the method keeps elsewhere.
        """
        both = [row for row in self.rows if (row.method, row.network) == (method, network) and row.server_mb]
        if both:
            return max(row.disk_mb for row in both), max(row.server_mb for row in both)
        plain = [row.server_mb for row in self.rows if (row.method, row.network) == (PLAIN, network)]
        server = max(plain, default=0.0)
        beside = [row.disk_mb / row.server_mb for row in self.rows if row.method == method and row.server_mb]
        return server * max(beside, default=0.0), server

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


def _memory(row: Measured, kept: float, clients: int, plan: Plan, dataset: str) -> float:
    """What a measured run held, and what more clients and a larger dataset add to it.

    A client's state is in memory as often as it is kept in files; data are in memory as four bytes a number.

    Args:
        row: the measured run.
        kept: megabytes of files for each client.
        clients: of the run that is asked about.
        plan: it knows the datasets.
        dataset: the one that is asked about.
    """
    more = max(clients - row.memory_clients, 0) * kept
    larger = _data_mb(plan.datasets.get(dataset)) - _data_mb(plan.datasets.get(row.dataset))
    return row.memory_mb + more + max(larger, 0.0)


def _data_mb(facts: DatasetFacts | None) -> float:
    """Megabytes of a dataset's numbers; 0 where nobody knows how many there are."""
    counts = facts.counts("all") if facts else None
    return 4e-6 * sum(counts) * prod(facts.shape) if facts and counts else 0.0


def _measured(row: Mapping[str, str]) -> Measured:
    numbers = {name: float(row[name]) for name in ("passes", "seconds", "memory_mb", "disk_mb", "server_mb")}
    return Measured(
        row["method"],
        row["network"],
        row["dataset"],
        int(row["runs"]),
        **numbers,
        source=row["source"],
        memory_clients=int(row["memory_clients"]),
    )


def _pace(rows: Sequence[Measured]) -> float:
    """Seconds for a thousand passes; long runs count for more than short ones."""
    passes_ = sum(row.passes for row in rows)
    return sum(row.seconds for row in rows) / passes_ if passes_ else 0.0


def write_rows(file: Path, rows: Iterable[Measured]) -> None:
    """Write the table, ordered by its first three columns."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(map(astuple, sorted(rows, key=lambda row: (row.method, row.network, row.dataset))))
