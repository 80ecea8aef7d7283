"""Contiguous blocks of each class, dealt to the clients in order: pFedBayes and BPFed."""

from __future__ import annotations

import numpy as np

from fedbayes.data.draws import Draws
from fedbayes.data.rules.types import ClientIndices, Indices, Samples, require, without_validation
from fedbayes.split_rules import PFedBayesSplit


def make(samples: Samples, split: PFedBayesSplit, seed: int) -> ClientIndices:
    """Blocks of each class, dealt to the clients in order, then cut into training and test data.

    The rule of the public code (`data/Mnist/generate_niid_users_mnist.py`), whose random generator is replaced.
    """
    cut = _cut_each_class if split.stratified else _cut_as_a_whole
    return without_validation(
        cut(blocks, split.train_per_class, Draws(seed, client)) for client, blocks in enumerate(_deal(samples, split))
    )


def _deal(samples: Samples, split: PFedBayesSplit) -> list[list[Indices]]:
    """The blocks of each client: the next unused samples of each of its labels, in the dataset's order."""
    pools = samples.by_class("all")
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


def _cut_as_a_whole(blocks: list[Indices], train_per_class: int, draws: Draws) -> tuple[Indices, Indices]:
    """Shuffle all of a client's samples and cut once: counts per class hold on average, as in the public code."""
    samples = draws.shuffle(np.concatenate(blocks))
    first = len(blocks) * train_per_class
    return samples[:first], samples[first:]


def _cut_each_class(blocks: list[Indices], train_per_class: int, draws: Draws) -> tuple[Indices, Indices]:
    """Shuffle and cut class by class: counts per class are exact, as in the paper's text.

    The training samples are shuffled once more, because a cyclic reader takes them in this order and must not meet
    one class after another.
    """
    shuffled = [draws.shuffle(block) for block in blocks]
    train = draws.shuffle(np.concatenate([block[:train_per_class] for block in shuffled]))
    return train, np.concatenate([block[train_per_class:] for block in shuffled])


def check(samples: Samples, split: PFedBayesSplit, clients: ClientIndices) -> None:
    """Raise unless every client has exactly its labels and the counts the split promises."""
    labels, classes = samples.labels, samples.classes
    for client, (train, test) in enumerate(zip(clients.train, clients.test, strict=True)):
        held = np.zeros(classes, np.int64)
        held[split.client_labels(client, classes)] = 1
        trained = np.bincount(labels[train], minlength=classes)
        counts = trained + np.bincount(labels[test], minlength=classes)
        require(
            np.array_equal(counts, held * (split.train_per_class + split.test_per_class)),
            f"client {client} has {counts.tolist()} samples of the classes",
        )
        require(
            len(train) == split.labels_per_client * split.train_per_class,
            f"client {client} has {len(train)} training samples",
        )
        if split.stratified:
            require(
                np.array_equal(trained, held * split.train_per_class),
                f"client {client} has {trained.tolist()} training samples of the classes",
            )
