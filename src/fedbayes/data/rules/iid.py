"""Equal random shares."""

from __future__ import annotations

import numpy as np

from fedbayes.data.draws import Draws
from fedbayes.data.rules.types import HOLDERS, ClientIndices, Samples, cut_by_share, require
from fedbayes.split_rules import IidSplit


def make(samples: Samples, split: IidSplit, seed: int) -> ClientIndices:
    """All samples in random order, cut into shares that differ by one sample at most."""
    rows = Draws(seed, 0, HOLDERS).shuffle(samples.rows(split.pool))
    return cut_by_share(np.array_split(rows, split.clients), split.train_share, seed)


def check(samples: Samples, split: IidSplit, clients: ClientIndices) -> None:
    """Raise unless the whole part is dealt in equal shares."""
    sizes = [len(train) + len(test) for train, test in zip(clients.train, clients.test, strict=True)]
    require(sum(sizes) == len(samples.rows(split.pool)), f"{sum(sizes)} samples are dealt")
    require(max(sizes) - min(sizes) <= 1, f"sizes go from {min(sizes)} to {max(sizes)}")
