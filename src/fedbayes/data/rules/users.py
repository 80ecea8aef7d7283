"""Natural users as clients, as LEAF samples them, or grouped into clients of about equal size."""

from __future__ import annotations

import numpy as np

from fedbayes.data.draws import Draws
from fedbayes.data.rules.types import (
    HOLDERS,
    ClientIndices,
    Indices,
    Samples,
    cut_by_share,
    require,
    without_validation,
)
from fedbayes.reading import ConfigError
from fedbayes.split_rules import UsersSplit


def make(samples: Samples, split: UsersSplit, seed: int) -> ClientIndices:
    """Users in random order until enough samples are taken, small ones left out, then each client's cut."""
    if samples.users is None:
        raise ConfigError("the split cannot be made: the rule 'users' needs a dataset that says whose each sample is")
    sizes = np.bincount(samples.users)
    chosen = chosen_users(sizes, split, seed)
    if len(chosen) < (split.clients or 1):
        raise ConfigError(
            f"the split cannot be made: {split.clients or 1} clients need as many users, but only {len(chosen)} have "
            f"at least {split.min_samples} samples (min_samples); the largest user has {sizes.max()}"
        )
    order = np.argsort(samples.users, kind="stable").astype(np.int64)
    own = dict(zip(chosen.tolist(), _rows(order, sizes, chosen), strict=True))
    groups = [[user] for user in sorted(chosen.tolist())]
    if split.clients is not None:
        groups = _grouped(chosen, sizes, split.clients)
    held = [np.concatenate([own[user] for user in group]) for group in groups]
    if split.train_share is not None:
        return cut_by_share(held, split.train_share, seed)
    shuffled = [Draws(seed, client).shuffle(rows) for client, rows in enumerate(held)]
    return without_validation((rows[~samples.is_test[rows]], rows[samples.is_test[rows]]) for rows in shuffled)


def chosen_users(sizes: Indices, split: UsersSplit, seed: int) -> Indices:
    """Users that take part: LEAF's --sf, then -k."""
    users = Draws(seed, 0, HOLDERS).shuffle(np.flatnonzero(sizes))
    before = np.cumsum(sizes[users]) - sizes[users]
    taken = users[before < split.share_of_samples * sizes.sum()]
    large_enough: Indices = taken[sizes[taken] >= split.min_samples]
    return large_enough


def _rows(order: Indices, sizes: Indices, users: Indices) -> list[Indices]:
    """Samples of each user, in the dataset's order."""
    ends = np.cumsum(sizes)
    return [order[ends[user] - sizes[user] : ends[user]] for user in users]


def _grouped(users: Indices, sizes: Indices, clients: int) -> list[list[int]]:
    """Users dealt largest first, each to the client that has fewest samples so far."""
    groups: list[list[int]] = [[] for _ in range(clients)]
    held = np.zeros(clients, np.int64)
    for user in users[np.argsort(-sizes[users], kind="stable")].tolist():
        client = int(held.argmin())
        groups[client].append(user)
        held[client] += sizes[user]
    return groups


def check(samples: Samples, split: UsersSplit, clients: ClientIndices) -> None:
    """Raise unless each user is at one client only, with all its samples."""
    assert samples.users is not None
    owner: dict[int, int] = {}
    for client, (train, test) in enumerate(zip(clients.train, clients.test, strict=True)):
        for user in set(samples.users[np.concatenate([train, test])].tolist()):
            require(user not in owner, f"user {user} is at two clients")
            owner[user] = client
    dealt = sum(map(len, clients.train)) + sum(map(len, clients.test))
    require(dealt == np.isin(samples.users, list(owner)).sum(), "a user's samples are not all dealt")
