"""Labels and splits for tests of the split rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.partition import partition, samples_of
from fedbayes.data.rules.types import ClientIndices
from fedbayes.split_rules import Split

Labels = NDArray[np.int64]


def shuffled_labels(counts: Sequence[int], seed: int = 0) -> Labels:
    """As many samples of each class as asked for, in random order."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def deal(
    labels: Labels, split: Split, seed: int, test_per_class: Sequence[int] | None = None, users: Labels | None = None
) -> ClientIndices:
    """The split of a dataset with these labels."""
    return partition(samples_of(labels, test_per_class, users), split, seed)


def held(clients: ClientIndices) -> list[list[int]]:
    """All samples of each client, whatever they are for."""
    return [np.concatenate(parts).tolist() for parts in zip(*clients, strict=True)]


def assert_same(first: ClientIndices, second: ClientIndices) -> None:
    """Fail unless two splits are the same, client by client and in order."""
    for parts, again in zip(first, second, strict=True):
        for own, same in zip(parts, again, strict=True):
            np.testing.assert_array_equal(own, same)
