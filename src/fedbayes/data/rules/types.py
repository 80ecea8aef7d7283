"""What every split rule takes and gives, and the pieces that several rules share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.draws import Draws, Floats
from fedbayes.split_rules import Pool
from fedbayes.split_rules.facts import floor

Indices = NDArray[np.int64]

# Second numbers of a stream's path, so that two purposes of one client never share bits. The first number is the client
# or class; a path of one number alone is a client's order.
VALIDATION, SHARES, HOLDERS, SIZES, TESTS, ORDER, SERVER = 1, 2, 3, 4, 5, 6, 7


class Samples(NamedTuple):
    """What a rule may look at."""

    labels: NDArray[np.int64]  # (sample,)
    is_test: NDArray[np.bool_]  # (sample,): the dataset's own test part
    users: NDArray[np.int64] | None = None  # (sample,): whose it is, where the dataset says so

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def rows(self, pool: Pool) -> Indices:
        """Samples of a part, in the dataset's order."""
        chosen = {"all": np.ones_like(self.is_test), "train": ~self.is_test, "test": self.is_test}[pool]
        return np.flatnonzero(chosen).astype(np.int64)

    def among(self, rows: Indices) -> Samples:
        """Some of the samples alone."""
        return Samples(self.labels[rows], self.is_test[rows], None if self.users is None else self.users[rows])

    def by_class(self, pool: Pool) -> list[Indices]:
        """Samples of a part, class by class, in the dataset's order."""
        rows = self.rows(pool)
        return [rows[self.labels[rows] == label] for label in range(self.classes)]


class ClientIndices(NamedTuple):
    """Positions in the dataset that each client trains, validates and tests on, client by client, in reading order."""

    train: tuple[Indices, ...]
    val: tuple[Indices, ...]
    test: tuple[Indices, ...]


def without_validation(parts: Iterable[tuple[Indices, Indices]]) -> ClientIndices:
    """Pairs of training and test samples, one a client."""
    train, test = zip(*parts, strict=True)
    return ClientIndices(tuple(train), tuple(np.empty(0, np.int64) for _ in train), tuple(test))


def cut_by_share(held: Sequence[Indices], train_share: float, seed: int) -> ClientIndices:
    """Each client's samples, shuffled as a whole and cut: the first `train_share`, rounded down, are for training.

    At least one sample is left on either side, so every client needs two.
    """
    parts = []
    for client, samples in enumerate(held):
        shuffled = Draws(seed, client).shuffle(samples)
        first = first_of(len(samples), train_share)
        parts.append((shuffled[:first], shuffled[first:]))
    return without_validation(parts)


def first_of(samples: int, train_share: float) -> int:
    """How many of a client's samples are for training."""
    return min(max(1, floor(train_share * samples)), samples - 1)


def whole_counts(shares: Floats, total: int) -> Indices:
    """Whole numbers in proportion to the shares that add up to `total`: largest remainders are rounded up."""
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    left = total - int(counts.sum())
    counts[np.argsort(-(exact - counts), kind="stable")[:left]] += 1
    return counts


def require(holds: bool | np.bool_, otherwise: str) -> None:
    """Raise unless a split is what its rule promises: a mistake of ours, not of the user's."""
    if not holds:
        raise ValueError(f"the split is wrong: {otherwise}")
