"""k of n labels a client: LR-BPFL's 2/10, 5/10 and 5/100."""

from __future__ import annotations

import numpy as np

from fedbayes.data.draws import Draws
from fedbayes.data.rules.types import (
    HOLDERS,
    ORDER,
    SHARES,
    ClientIndices,
    Indices,
    Samples,
    cut_by_share,
    require,
)
from fedbayes.split_rules import LabelsSplit
from fedbayes.split_rules.facts import floor

# Swaps tried to free one client of a label it was dealt twice.
MOST_SWAPS = 1000


def make(samples: Samples, split: LabelsSplit, seed: int) -> ClientIndices:
    """Labels to clients, the samples of each class to its holders, then each client's cut."""
    held: list[list[Indices]] = [[] for _ in range(split.clients)]
    for label, (rows, holders) in enumerate(
        zip(samples.by_class(split.pool), holders_of(split, samples.classes, seed), strict=True)
    ):
        if holders:
            counts = _shares(len(rows), len(holders), split, Draws(seed, label, SHARES))
            pieces = np.split(Draws(seed, label, ORDER).shuffle(rows), np.cumsum(counts)[:-1])
            for client, piece in zip(holders, pieces, strict=True):
                held[client].append(piece)
    return cut_by_share([np.concatenate(pieces) for pieces in held], split.train_share, seed)


def holders_of(split: LabelsSplit, classes: int, seed: int) -> list[list[int]]:
    """Clients that hold each class, in random order: the last one may take a larger share."""
    if split.holders == "ceil":
        return _first_come(split, classes, seed)
    hands = _deal(split, classes, Draws(seed, 0, HOLDERS, 0))
    held_by = [[client for client, hand in enumerate(hands) if label in hand] for label in range(classes)]
    return [Draws(seed, label, HOLDERS).shuffle(np.array(own, int)).tolist() for label, own in enumerate(held_by)]


def _deal(split: LabelsSplit, classes: int, draws: Draws) -> list[list[int]]:
    """Labels of each client: shuffled cards, each label on as many cards as it has holders.

    A label dealt twice to a client is swapped for a random card of another client that suits both. Where clients hold
    nearly all labels hardly any card suits, and cards are dealt in an order that cannot fail.
    """
    k = split.labels_per_client
    cards = np.resize(draws.shuffle(np.arange(classes)), split.clients * k)
    hands = [hand.tolist() for hand in draws.shuffle(cards).reshape(split.clients, k)]
    for client, hand in enumerate(hands):
        for place in range(k):
            for _ in range(MOST_SWAPS):
                if hand.count(hand[place]) == 1:
                    break
                other, there = int(draws.below(split.clients, 1)[0]), int(draws.below(k, 1)[0])
                mine, theirs = hand[place], hands[other][there]
                if other != client and theirs not in hand and mine not in hands[other]:
                    hand[place], hands[other][there] = theirs, mine
            if hand.count(hand[place]) > 1:
                return _deal_in_order(cards, split, classes, draws)
    return hands


def _deal_in_order(cards: Indices, split: LabelsSplit, classes: int, draws: Draws) -> list[list[int]]:
    """The same cards, label by label to the clients with most free slots, ties at random: always exact (Gale-Ryser)."""
    hands: list[list[int]] = [[] for _ in range(split.clients)]
    for label in draws.shuffle(np.arange(classes)).tolist():
        order = draws.shuffle(np.arange(split.clients)).tolist()
        for client in sorted(order, key=lambda c: len(hands[c]))[: int((cards == label).sum())]:
            hands[client].append(label)
    return hands


def _first_come(split: LabelsSplit, classes: int, seed: int) -> list[list[int]]:
    """PFLlib's rule: class by class, the first ceil(K k / n) of the shuffled clients that have a slot left."""
    free = np.full(split.clients, split.labels_per_client)
    holders = []
    for label in range(classes):
        order = Draws(seed, label, HOLDERS).shuffle(np.arange(split.clients))
        chosen = order[free[order] > 0][: split.holders_of_a_class(classes)]
        free[chosen] -= 1
        holders.append(chosen.tolist())
    return holders


def _shares(samples: int, holders: int, split: LabelsSplit, draws: Draws) -> Indices:
    """Samples of a class for each of its holders; the last one takes what is left."""
    each = samples // holders
    if split.shares == "equal":
        counts = np.full(holders, each)
    else:
        least = floor(each / 10)
        counts = least + draws.below(each - least, holders)
    counts[-1] = samples - counts[:-1].sum()
    return counts


def check(samples: Samples, split: LabelsSplit, clients: ClientIndices) -> None:
    """Raise unless classes are dealt whole, as many of them as there are slots for, and label sets are as promised."""
    labels, k = samples.labels, split.labels_per_client
    for client, (train, test) in enumerate(zip(clients.train, clients.test, strict=True)):
        own = len(set(labels[np.concatenate([train, test])].tolist()))
        right = own == k if split.holders == "even" else own <= k
        require(right, f"client {client} has {own} labels instead of {k}")
    dealt = np.concatenate([*clients.train, *clients.test])
    expected = np.bincount(labels[samples.rows(split.pool)], minlength=samples.classes)
    found = np.bincount(labels[dealt], minlength=samples.classes)
    broken = np.flatnonzero((found != expected) & (found > 0))
    require(len(broken) == 0, f"classes {broken.tolist()} are not dealt whole")
    if split.holders == "even":
        unheld, slots = int((found == 0).sum()), split.clients * k
        require(unheld == max(0, samples.classes - slots), f"{unheld} classes have no holder")
