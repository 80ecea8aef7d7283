"""Many small federations side by side: the dataset's users as they are numbered, with all their samples."""

from __future__ import annotations

import numpy as np

from fedbayes.data.rules.types import ClientIndices, Samples, require, without_validation
from fedbayes.reading import ConfigError
from fedbayes.split_rules import RepeatsSplit


def make(samples: Samples, split: RepeatsSplit, seed: int) -> ClientIndices:
    """Each user's samples, in the dataset's order, for training; the seed has no say."""
    if samples.users is None:
        raise ConfigError("the split cannot be made: the rule 'repeats' needs a dataset that says whose each sample is")
    sizes = np.bincount(samples.users)
    if len(sizes) < split.population:
        raise ConfigError(
            f"the split cannot be made: {split.repeats} repeats of {split.clients} clients need {split.population} "
            f"users, but the dataset has only {len(sizes)}"
        )
    order = np.argsort(samples.users, kind="stable").astype(np.int64)
    own = np.split(order, np.cumsum(sizes)[:-1])[: split.population]
    return without_validation((rows, np.empty(0, np.int64)) for rows in own)


def check(samples: Samples, split: RepeatsSplit, clients: ClientIndices) -> None:
    """Raise unless client k is user k with all its samples."""
    assert samples.users is not None
    for client, rows in enumerate(clients.train):
        require(bool((samples.users[rows] == client).all()), f"client {client} has samples of another user")
    dealt = sum(map(len, clients.train))
    require(dealt == (samples.users < split.population).sum(), "a user's samples are not all dealt")
