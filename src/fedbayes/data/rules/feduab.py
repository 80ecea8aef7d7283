"""FedUAB's scenarios: equal sizes, iid / Dirichlet / two classes, local test sets by the same law."""

from __future__ import annotations

import numpy as np

from fedbayes.data.draws import Draws, Floats
from fedbayes.data.rules.types import SHARES, TESTS, ClientIndices, Indices, Samples, require, without_validation
from fedbayes.split_rules import FedUABSplit
from fedbayes.split_rules.facts import floor

LARGEST_CONCENTRATION = 0.5


def make(samples: Samples, split: FedUABSplit, seed: int) -> ClientIndices:
    """Class shares of each client, then its training and test samples by these shares."""
    laws = class_shares(split, samples.classes, seed)
    train, test = _Dealer(samples.by_class("train"), seed, 0), _Dealer(samples.by_class("test"), seed, TESTS)
    parts = []
    for client, law in enumerate(laws):
        draws = Draws(seed, client)
        parts.append(
            tuple(
                draws.shuffle(dealer.deal(counts_by(law, size, draws)))
                for dealer, size in ((train, split.train_per_client), (test, split.test_per_client))
            )
        )
    return without_validation((own[0], own[1]) for own in parts)


def class_shares(split: FedUABSplit, classes: int, seed: int) -> Floats:
    """Shares `[client, class]` of the classes at each client."""
    if split.law == "iid":
        return np.full((split.clients, classes), 1.0 / classes)
    if split.law == "only2":
        return _two_of(split.clients, classes, Draws(seed, 0, SHARES))
    return np.stack(
        [
            Draws(seed, client, SHARES).dirichlet(eta, classes)
            for client, eta in enumerate(concentrations(split, seed).tolist())
        ]
    )


def concentrations(split: FedUABSplit, seed: int) -> Floats:
    """eta_i of each client: U(0, 0.5] in the text, the grid 0.5 (i + 1) / N_c in the code."""
    if split.concentration == "grid":
        return LARGEST_CONCENTRATION * np.arange(1, split.clients + 1) / split.clients
    return LARGEST_CONCENTRATION * Draws(seed, 0, SHARES, 0).uniform(split.clients)


def _two_of(clients: int, classes: int, draws: Draws) -> Floats:
    """Half and half of two classes, popped from a shuffled list of all that is made anew when it is empty."""
    shares, cards = np.zeros((clients, classes)), np.empty(0, np.int64)
    for client in range(clients):
        if len(cards) < 2:
            # With an odd number of classes the card left over goes first, and must not come twice.
            fresh = draws.shuffle(np.arange(classes))
            cards = np.concatenate([cards, fresh[~np.isin(fresh, cards)], cards])
        shares[client, cards[:2]] = 0.5
        cards = cards[2:]
    return shares


def counts_by(shares: Floats, size: int, draws: Draws) -> Indices:
    """Samples of each class: rounded down, and what is missing goes to one random class of the client's law."""
    counts = np.array([floor(share * size) for share in shares])
    possible = np.flatnonzero(shares > 0)
    counts[possible[draws.below(len(possible), 1)[0]]] += size - counts.sum()
    return counts


class _Dealer:
    """Samples of each class in random order; a class that is used up is shuffled and dealt again.

    A client that gets the last samples of one turn and the first of the next gets none of them twice, unless it wants
    more than there are.
    """

    def __init__(self, pools: list[Indices], seed: int, purpose: int) -> None:
        self._pools = pools
        self._draws = [Draws(seed, label, SHARES, purpose, 1) for label in range(len(pools))]
        self._left = [draws.shuffle(pool) for draws, pool in zip(self._draws, pools, strict=True)]

    def deal(self, counts: Indices) -> Indices:
        """The next samples of each class."""
        dealt = []
        for label, count in enumerate(counts.tolist()):
            while len(self._left[label]) < count:
                last = self._left[label]
                again = self._draws[label].shuffle(self._pools[label])
                own = np.isin(again, last)
                self._left[label] = np.concatenate([last, again[~own], again[own]])
            dealt.append(self._left[label][:count])
            self._left[label] = self._left[label][count:]
        return np.concatenate(dealt)


def check(samples: Samples, split: FedUABSplit, clients: ClientIndices) -> None:
    """Raise unless sizes are exact, parts are kept apart, and no sample is dealt again before its class is used up."""
    for name, part, size, is_test in (
        ("training", clients.train, split.train_per_client, False),
        ("test", clients.test, split.test_per_client, True),
    ):
        sizes = {len(own) for own in part}
        require(sizes == {size}, f"{name} sets have {sorted(sizes)} samples instead of {size}")
        dealt = np.concatenate(part)
        require(bool((samples.is_test[dealt] == is_test).all()), f"a {name} sample is of the other part")
        for label, pool in enumerate(samples.by_class("test" if is_test else "train")):
            uses = np.bincount(dealt[samples.labels[dealt] == label], minlength=len(samples.labels))[pool]
            require(len(uses) == 0 or uses.max() - uses.min() <= 1, f"{name} samples of class {label} are not in turn")
