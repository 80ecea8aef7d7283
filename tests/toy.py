"""A federation small enough to follow by hand: unequal clients, a tiny perceptron, float64."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch

from fedbayes.federation.contract import Feed
from fedbayes.federation.lifting import Lift, Lifting
from fedbayes.federation.loop import Federation, State, rounds, start
from fedbayes.federation.resident import Resident, lay_out
from fedbayes.methods import load_method
from fedbayes.models import load_network
from fedbayes.models.network import Network

SIZES = (7, 12, 4)
CLASSES = 3
FEDAVG = {"lr": 0.1, "momentum": 0.0, "weighting": "samples"}


def network(dtype: torch.dtype = torch.float64) -> Network:
    """2-5-3 perceptron whose initial weights have the given type."""
    net = load_network("mlp", {"hidden": (5,)}, (1, 1, 2), CLASSES)
    return net._replace(init=lambda stream: {name: w.to(dtype) for name, w in net.init(stream).items()})


def resident(
    sizes: tuple[int, ...] = SIZES,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    order: tuple[int, ...] | None = None,
) -> Resident:
    """Random points whose class shifts their mean; client i holds `sizes[i]` of them and tests on five others.

    The server holds ten more, of no class.

    With an `order`, client i is the one that would be `order[i]` without it.
    """
    stream = np.random.default_rng(seed)
    total, tests = sum(sizes), 5 * len(sizes)
    labels = stream.integers(CLASSES, size=total + tests)
    inputs = stream.normal(size=(total + tests, 1, 1, 2)) + labels[:, None, None, None]
    ends = np.cumsum([0, *sizes])
    train = [np.arange(a, b) for a, b in pairwise(ends)]
    test = [total + np.arange(5 * i, 5 * i + 5) for i in range(len(sizes))]
    if order is not None:
        train, test = ([own[i] for i in order] for own in (train, test))
    inputs = np.concatenate([inputs, stream.normal(size=(10, 1, 1, 2)) + 1])
    labels = np.concatenate([labels, np.zeros(10, labels.dtype)])
    server = total + tests + np.arange(10)
    return lay_out(inputs, labels, train, test, CLASSES, lambda x: x.to(dtype), torch.device("cpu"), server=server)


def federation(
    method: str = "fedavg",
    fields: dict[str, Any] = FEDAVG,
    sizes: tuple[int, ...] = SIZES,
    dtype: torch.dtype = torch.float64,
    feed: Feed | None = None,
    lift: Lift = "vmap",
    chunk: int | None = None,
    compiled: bool = False,
    seed: int = 0,
    clients_per_round: int | None = None,
    trains: Any = "selected",
) -> Federation:
    """A toy federation with whatever a test wants different; a method that cannot be vmapped is always looped."""
    built = load_method(method, fields, network(dtype))
    return Federation(
        method=built,
        data=resident(sizes, dtype),
        feed=feed or Feed(batch=4, amount=3),
        seed=seed,
        clients_per_round=clients_per_round or len(sizes),
        trains=trains,
        lifting=Lifting(lift if built.traceable else "loop", compiled, chunk),
    )


def after(federation: Federation, count: int, state: State | None = None) -> State:
    """The state after `count` rounds, from the start or from a given state."""
    return [new for new, _ in rounds(federation, state or start(federation), count)][-1]
