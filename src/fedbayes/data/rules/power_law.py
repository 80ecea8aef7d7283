"""FedProx's MNIST and FEMNIST: consecutive labels, log-normal sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.draws import Draws, Floats
from fedbayes.data.rules.types import SIZES, ClientIndices, Indices, Samples, cut_by_share, require
from fedbayes.split_rules import LEAST_OF_A_CLASS, PowerLawSplit
from fedbayes.split_rules.facts import floor


def make(samples: Samples, split: PowerLawSplit, seed: int) -> ClientIndices:
    """Samples of each class in the dataset's order, as many to each holder as `counts` says, then each client's cut."""
    pools = samples.by_class("all")
    dealt = counts([len(pool) for pool in pools], split, seed)
    ends = np.cumsum(dealt, axis=0)
    held = []
    for client in range(split.clients):
        own = [
            pools[label][ends[client, label] - dealt[client, label] : ends[client, label]]
            for label in split.client_labels(client, len(pools))
        ]
        held.append(np.concatenate(own))
    return cut_by_share(held, split.train_share, seed)


def counts(available: list[int], split: PowerLawSplit, seed: int) -> Indices:
    """Samples `[client, class]`: what everybody gets beforehand, then by the log-normal draws while a class lasts.

    A holder whose share no longer fits gets none of it, as in FedProx's generator for MNIST (`idx + n < len`). Its
    generator for FEMNIST would start the class anew there, so that clients share images; here none is shared.
    """
    classes = len(available)
    holds = np.zeros((split.clients, classes), bool)
    for client in range(split.clients):
        holds[client, split.client_labels(client, classes)] = True
    first, more = (_by_shares if split.sizes == "shares" else _by_samples)(np.array(available), holds, split, seed)
    used = first.sum(0)
    for client in range(split.clients):
        for label in split.client_labels(client, classes):
            if used[label] + more[client, label] < available[label]:
                first[client, label] += more[client, label]
                used[label] += more[client, label]
    return first


def _by_shares(
    available: Indices, holds: NDArray[np.bool_], split: PowerLawSplit, seed: int
) -> tuple[Indices, Indices]:
    """MNIST: `least` of each class to each holder, what is left of a class in proportion to log-normal draws."""
    first = holds * split.least
    weights = np.stack([_log_normal(split, Draws(seed, client, SIZES), holds.shape[1]) for client in range(len(holds))])
    weights = np.where(holds, weights, 0.0)
    exact = (available - first.sum(0)) * weights / np.maximum(weights.sum(0), np.finfo(float).tiny)
    return first, np.floor(exact).astype(np.int64)


def _by_samples(
    available: Indices, holds: NDArray[np.bool_], split: PowerLawSplit, seed: int
) -> tuple[Indices, Indices]:
    """FEMNIST: a client's size is log-normal plus `least`, spread evenly over its classes, at least two of each."""
    k = split.labels_per_client
    sizes = [float(_log_normal(split, Draws(seed, client, SIZES), 1)[0]) + split.least for client in range(len(holds))]
    each = np.array([max(LEAST_OF_A_CLASS, floor(size / k)) for size in sizes])
    return holds * LEAST_OF_A_CLASS, holds * (each - LEAST_OF_A_CLASS)[:, None]


def _log_normal(split: PowerLawSplit, draws: Draws, count: int) -> Floats:
    return np.exp(split.mu + split.sigma * draws.normal(count))


def check(samples: Samples, split: PowerLawSplit, clients: ClientIndices) -> None:
    """Raise unless every client has exactly its labels."""
    for client, (train, test) in enumerate(zip(clients.train, clients.test, strict=True)):
        own = set(samples.labels[np.concatenate([train, test])].tolist())
        allowed = set(split.client_labels(client, samples.classes))
        require(own == allowed if split.sizes == "shares" else own <= allowed, f"client {client} has the labels {own}")
