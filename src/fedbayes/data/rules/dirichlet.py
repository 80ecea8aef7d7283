"""Labels by Dirichlet draws: a vector of classes for each client, or a vector of clients for each class."""

from __future__ import annotations

import numpy as np

from fedbayes.data.draws import Draws, Floats
from fedbayes.data.rules.types import (
    ORDER,
    SHARES,
    ClientIndices,
    Indices,
    Samples,
    cut_by_share,
    require,
    whole_counts,
)
from fedbayes.reading import ConfigError
from fedbayes.split_rules import DirichletSplit

# Draws that are tried until every client has enough samples.
MOST_DRAWS = 1000


def make(samples: Samples, split: DirichletSplit, seed: int) -> ClientIndices:
    """The clients' samples under either law, each client then cut by its training share."""
    counts = (_client_counts if split.law == "client" else _class_counts)(samples, split, seed)
    held: list[list[Indices]] = [[] for _ in range(split.clients)]
    for label, rows in enumerate(samples.by_class(split.pool)):
        pieces = np.split(Draws(seed, label, ORDER).shuffle(rows), np.cumsum(counts[:, label]))
        for client in range(split.clients):
            held[client].append(pieces[client])
    return cut_by_share([np.concatenate(pieces) for pieces in held], split.train_share, seed)


def _client_counts(samples: Samples, split: DirichletSplit, seed: int) -> Indices:
    """Counts `[client, class]`: every client of equal size, its classes by its own vector, while they last."""
    left = np.array([len(rows) for rows in samples.by_class(split.pool)])
    size = split.samples_per_client or int(left.sum()) // split.clients
    counts = np.zeros((split.clients, len(left)), np.int64)
    for client in range(split.clients):
        shares = Draws(seed, client, SHARES).dirichlet(split.alpha, len(left))
        counts[client] = _while_they_last(shares, size, left)
        left -= counts[client]
    return counts


def _while_they_last(shares: Floats, size: int, left: Indices) -> Indices:
    """`size` samples by the shares; what a class cannot give is asked of those that can, in the same proportions."""
    counts = np.zeros_like(left)
    while (missing := size - int(counts.sum())) > 0:
        open_ = np.where(left > counts, shares, 0.0)
        if open_.sum() <= 0.0:
            # The client's own classes are used up to the last sample.
            open_ = np.where(left > counts, 1.0, 0.0)
        counts = np.minimum(counts + whole_counts(open_ / open_.sum(), missing), left)
    return counts


def _class_counts(samples: Samples, split: DirichletSplit, seed: int) -> Indices:
    """Counts `[client, class]`: each class by a vector over clients, drawn again until no client is too small."""
    per_class = [len(rows) for rows in samples.by_class(split.pool)]
    best = -1
    for attempt in range(MOST_DRAWS):
        counts = _one_draw(per_class, split, seed, attempt)
        smallest = int(counts.sum(1).min())
        if smallest >= split.min_samples:
            return counts
        best = max(best, smallest)
    raise ConfigError(
        f"the split cannot be made: alpha {split.alpha} gave {split.clients} clients of at least {split.min_samples} "
        f"samples (min_samples) in none of {MOST_DRAWS} draws; feasible: min_samples at most {best}, or a larger alpha"
    )


def _one_draw(per_class: list[int], split: DirichletSplit, seed: int, attempt: int) -> Indices:
    """One draw; a client that already has its equal share gets nothing more, as in PFLlib."""
    counts = np.zeros((split.clients, len(per_class)), np.int64)
    fair = sum(per_class) / split.clients
    for label, available in enumerate(per_class):
        shares = Draws(seed, label, SHARES, attempt).dirichlet(split.alpha, split.clients)
        open_ = np.where(counts.sum(1) < fair, shares, 0.0)
        if open_.sum() <= 0.0:
            open_ = np.where(counts.sum(1) < fair, 1.0, 0.0)
        counts[:, label] = whole_counts(open_ / open_.sum(), available)
    return counts


def check(samples: Samples, split: DirichletSplit, clients: ClientIndices) -> None:
    """Raise unless sizes and the cover are as promised."""
    sizes = [len(train) + len(test) for train, test in zip(clients.train, clients.test, strict=True)]
    require(min(sizes) >= split.min_samples, f"a client has {min(sizes)} samples")
    available = len(samples.rows(split.pool))
    if split.law == "class":
        require(sum(sizes) == available, f"{sum(sizes)} of {available} samples are dealt")
    else:
        size = split.samples_per_client or available // split.clients
        require(set(sizes) == {size}, f"sizes are {sorted(set(sizes))} instead of {size}")
