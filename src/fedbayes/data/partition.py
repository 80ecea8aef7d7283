"""Labels to one set of sample indices per client. A new rule is one function and one line in the dict at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.reading import ConfigError
from fedbayes.split_rules import PFedBayesSplit, Split

Indices = NDArray[np.int64]


class ClientIndices(NamedTuple):
    """Positions in the dataset that each client trains, validates and tests on, client by client, in reading order."""

    train: tuple[Indices, ...]
    val: tuple[Indices, ...]
    test: tuple[Indices, ...]


def partition(labels: NDArray[np.int64], split: Split, seed: int) -> ClientIndices:
    """The clients' samples by the rule the split names, counted and checked for overlap.

    Args:
        labels: label of each sample (sample,), in the dataset's order.
        split: the rule and its numbers.
        seed: any non-negative number; with the same labels and split it gives the same indices everywhere.
    """
    objection = split.objection(tuple(np.bincount(labels).tolist()))
    if objection:
        raise ConfigError(f"the split cannot be made: {objection}")
    if seed < 0:
        raise ConfigError(f"seeds: found {seed}; allowed: 0, 1, 2, ...")
    make, check = RULES[split.rule]
    clients = make(labels, split, seed)
    check_disjoint(clients, len(labels))
    check(labels, split, clients)
    return clients


class Shuffler:
    """Random orders that depend on a seed and a client only.

    NumPy keeps the bits of PCG64 and SeedSequence for ever, but not those of `Generator.permutation`; so samples are
    ordered by raw bits, and a newer NumPy makes the same split.
    """

    def __init__(self, seed: int, client: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(client,)))

    def __call__(self, samples: Indices) -> Indices:
        """The samples in a new random order."""
        return samples[np.argsort(self._bits.random_raw(len(samples)), kind="stable")]


# ---------------------------------------------------------------- pFedBayes


def pfedbayes(labels: NDArray[np.int64], split: PFedBayesSplit, seed: int) -> ClientIndices:
    """Contiguous blocks of each class, dealt to the clients in order, then cut into training and test data.

    The rule of the public code (`data/Mnist/generate_niid_users_mnist.py`), whose random generator is replaced.
    """
    cut = _cut_each_class if split.stratified else _cut_as_a_whole
    parts = [
        cut(blocks, split.train_per_class, Shuffler(seed, client)) for client, blocks in enumerate(_deal(labels, split))
    ]
    none = tuple(np.empty(0, np.int64) for _ in parts)
    return ClientIndices(tuple(train for train, _ in parts), none, tuple(test for _, test in parts))


def _deal(labels: NDArray[np.int64], split: PFedBayesSplit) -> list[list[Indices]]:
    """The blocks of each client: the next unused samples of each of its labels, in the dataset's order."""
    pools = [np.flatnonzero(labels == label).astype(np.int64) for label in range(int(labels.max()) + 1)]
    size = split.train_per_class + split.test_per_class
    used = [0] * len(pools)
    dealt = []
    for client in range(split.clients):
        blocks = []
        for label in split.client_labels(client, len(pools)):
            blocks.append(pools[label][used[label] : used[label] + size])
            used[label] += size
        dealt.append(blocks)
    return dealt


def _cut_as_a_whole(blocks: list[Indices], train_per_class: int, shuffle: Shuffler) -> tuple[Indices, Indices]:
    """Shuffle all of a client's samples and cut once: counts per class hold on average, as in the public code."""
    samples = shuffle(np.concatenate(blocks))
    first = len(blocks) * train_per_class
    return samples[:first], samples[first:]


def _cut_each_class(blocks: list[Indices], train_per_class: int, shuffle: Shuffler) -> tuple[Indices, Indices]:
    """Shuffle and cut class by class: counts per class are exact, as in the paper's text.

    The training samples are shuffled once more, because a cyclic reader takes them in this order and must not meet
    one class after another.
    """
    shuffled = [shuffle(block) for block in blocks]
    train = shuffle(np.concatenate([block[:train_per_class] for block in shuffled]))
    return train, np.concatenate([block[train_per_class:] for block in shuffled])


def check_pfedbayes(labels: NDArray[np.int64], split: PFedBayesSplit, clients: ClientIndices) -> None:
    """Raise unless every client has exactly its labels and the counts the split promises."""
    classes = int(labels.max()) + 1
    for client, (train, test) in enumerate(zip(clients.train, clients.test, strict=True)):
        held = np.zeros(classes, np.int64)
        held[split.client_labels(client, classes)] = 1
        trained = np.bincount(labels[train], minlength=classes)
        counts = trained + np.bincount(labels[test], minlength=classes)
        _require(
            np.array_equal(counts, held * (split.train_per_class + split.test_per_class)),
            f"client {client} has {counts.tolist()} samples of the classes",
        )
        _require(
            len(train) == split.labels_per_client * split.train_per_class,
            f"client {client} has {len(train)} training samples",
        )
        if split.stratified:
            _require(
                np.array_equal(trained, held * split.train_per_class),
                f"client {client} has {trained.tolist()} training samples of the classes",
            )
    _require(len(clients.train) == split.clients, f"there are {len(clients.train)} clients")


# ---------------------------------------------------------------- all rules


def check_disjoint(clients: ClientIndices, samples: int) -> None:
    """Raise unless every index exists and none is used twice, by two clients or in two parts of one."""
    used = np.concatenate([part for parts in clients for part in parts])
    counts = np.bincount(used, minlength=samples)
    _require(len(counts) == samples, f"an index goes beyond the {samples} samples")
    _require(counts.max(initial=0) <= 1, f"sample {counts.argmax()} is used {counts.max()} times")


def _require(holds: bool | np.bool_, otherwise: str) -> None:
    if not holds:
        raise ValueError(f"the split is wrong: {otherwise}")


Rule = Callable[[NDArray[np.int64], Split, int], ClientIndices]
Check = Callable[[NDArray[np.int64], Split, ClientIndices], None]

RULES: dict[str, tuple[Rule, Check]] = {
    "pfedbayes": (pfedbayes, check_pfedbayes),
}
