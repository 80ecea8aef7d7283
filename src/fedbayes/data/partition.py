"""Samples to one set of indices per client, by the rule a split names. A new rule is one file in `rules/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.draws import Draws
from fedbayes.data.rules import dirichlet, feduab, iid, labels, pfedbayes, power_law, repeats, users
from fedbayes.data.rules.types import SERVER, VALIDATION, ClientIndices, Indices, Samples, require
from fedbayes.reading import ConfigError
from fedbayes.split_rules import SHARED_SAMPLES, ClassFacts, JoinedSplit, Pool, Split
from fedbayes.split_rules.facts import floor

# The two parts that the server takes its share of.
PARTS: tuple[Pool, ...] = ("train", "test")


def samples_of(
    labels: NDArray[np.int64], test_per_class: Sequence[int] | None = None, users: NDArray[np.int64] | None = None
) -> Samples:
    """What rules look at.

    Args:
        labels: label of each sample (sample,), in the dataset's order.
        test_per_class: how many of each class are the dataset's own test part; they are the last ones of the class.
        users: whose each sample is.
    """
    is_test = np.zeros(len(labels), bool)
    for label, count in enumerate(test_per_class or ()):
        is_test[np.flatnonzero(labels == label)[-count:]] = True
    return Samples(labels, is_test, users)


def partition(samples: Samples, split: Split, seed: int) -> ClientIndices:
    """The clients' samples by the rule the split names, counted and checked for overlap.

    What the server holds is left out first, as if the dataset did not have it.

    Args:
        samples: labels, parts and users of the dataset.
        split: the rule and its numbers.
        seed: any non-negative number; with the same samples and split it gives the same indices everywhere.
    """
    if split.server_share:
        dealt = np.setdiff1d(np.arange(len(samples.labels)), server_samples(samples, split, seed))
        without = split.model_copy(update={"server_share": 0.0})
        clients = partition(samples.among(dealt), without, seed)
        return ClientIndices(*(tuple(dealt[own] for own in part) for part in clients))
    per_class = tuple(np.bincount(samples.labels).tolist())
    test_per_class = tuple(np.bincount(samples.labels[samples.is_test], minlength=len(per_class)).tolist())
    facts = ClassFacts(
        classes=len(per_class),
        per_class=per_class,
        test_per_class=test_per_class if samples.is_test.any() else None,
    )
    if objection := split.objection(facts):
        raise ConfigError(f"the split cannot be made: {objection}")
    if seed < 0:
        raise ConfigError(f"seeds: found {seed}; allowed: 0, 1, 2, ...")
    clients = _make(samples, split, seed)
    require(
        split.population in (None, len(clients.train)),
        f"there are {len(clients.train)} clients, not {split.population}",
    )
    if objection := split.objection_to_newcomers(len(clients.train)):
        raise ConfigError(f"the split cannot be made: {objection}")
    if split.validation:
        clients = _with_validation(clients, split.validation, seed)
    _check_sizes(clients, split)
    return clients


def server_samples(samples: Samples, split: Split, seed: int) -> Indices:
    """What the server holds: a random share of each class in either part, rounded down, in the dataset's order.

    By class, so that planning knows what is left of each.
    """
    held = [
        Draws(seed, label, SERVER, part).shuffle(rows)[: floor(split.server_share * len(rows))]
        for part, pool in enumerate(PARTS)
        for label, rows in enumerate(samples.by_class(pool))
    ]
    return np.sort(np.concatenate(held))


def _make(samples: Samples, split: Split, seed: int) -> ClientIndices:
    if isinstance(split, JoinedSplit):
        return _joined(samples, split, seed)
    make, check = RULES[split.rule]
    clients: ClientIndices = make(samples, split, seed)
    check_range(clients, len(samples.labels))
    if split.rule not in SHARED_SAMPLES:
        check_disjoint(clients)
    check(samples, split, clients)
    return clients


def _joined(samples: Samples, split: JoinedSplit, seed: int) -> ClientIndices:
    """Both splits, the newcomers behind the others; the second has a seed of its own, far from small ones."""
    trained = _make(samples, split.trained, seed)
    new = _make(samples, split.new, seed + 2**32)
    clients = ClientIndices(*(first + second for first, second in zip(trained, new, strict=True)))
    check_disjoint(clients)
    return clients


def _with_validation(clients: ClientIndices, share: float, seed: int) -> ClientIndices:
    """A random share of each client's training samples set aside; the others keep their order."""
    train, val = [], []
    for client, own in enumerate(clients.train):
        aside = np.zeros(len(own), bool)
        aside[Draws(seed, client, VALIDATION).shuffle(np.arange(len(own)))[: floor(share * len(own))]] = True
        train.append(own[~aside])
        val.append(own[aside])
    return ClientIndices(tuple(train), tuple(val), clients.test)


def _check_sizes(clients: ClientIndices, split: Split) -> None:
    """Every client must have something to train and to be tested on, and every validation set something in it."""
    parts = {"training": clients.train}
    if split.tested:
        parts["test"] = clients.test
    if split.validation:
        parts["validation"] = clients.val
    for name, part in parts.items():
        empty = [client for client, own in enumerate(part) if len(own) == 0]
        if empty:
            raise ConfigError(
                f"the split cannot be made: client {empty[0]} would have no {name} sample ({len(empty)} of "
                f"{len(part)} clients); ask for fewer clients or larger shares"
            )


def check_range(clients: ClientIndices, samples: int) -> None:
    """Raise unless every index exists."""
    used = np.concatenate([part for parts in clients for part in parts])
    require(used.max(initial=-1) < samples and used.min(initial=0) >= 0, f"an index goes beyond the {samples} samples")


def check_disjoint(clients: ClientIndices) -> None:
    """Raise if a sample is used twice, by two clients or in two parts of one."""
    counts = np.bincount(np.concatenate([part for parts in clients for part in parts]))
    require(counts.max(initial=0) <= 1, f"sample {counts.argmax()} is used {counts.max()} times")


# Pairs of functions: `make(samples, split, seed)`, and `check(samples, split, clients)`, which raises.
RULES: dict[str, tuple[Callable[[Samples, Any, int], ClientIndices], Callable[[Samples, Any, ClientIndices], None]]] = {
    "pfedbayes": (pfedbayes.make, pfedbayes.check),
    "labels": (labels.make, labels.check),
    "dirichlet": (dirichlet.make, dirichlet.check),
    "feduab": (feduab.make, feduab.check),
    "power-law": (power_law.make, power_law.check),
    "users": (users.make, users.check),
    "iid": (iid.make, iid.check),
    "repeats": (repeats.make, repeats.check),
}
