"""The dataset as one resident tensor, and each client's samples as rows into it. A batch is a gather, or a view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedbayes.federation import feed as feeding
from fedbayes.federation.contract import Facts, Feed
from fedbayes.federation.inputs import Augment, Prepare

# Inputs whose float32 form is at most this large are prepared once for the whole run: all of MNIST is (210 MiB), all of
# CIFAR is not. Held once for all samples, and once more for the test samples side by side.
KEEP_UP_TO_BYTES = 256 * 2**20


class Shards(NamedTuple):
    """Rows of each client's samples, padded to the largest client."""

    rows: Tensor  # [client, largest], int64
    sizes: Tensor  # [client], int64


class Truth(NamedTuple):
    """What estimates are held against, where the data come from a known law: numbers by what they are called."""

    personal: dict[str, Tensor]  # [client]
    common: dict[str, Tensor]  # [replicate]


@dataclass(frozen=True)
class Resident:
    """All samples, who holds which, and how stored values become network inputs."""

    inputs: Tensor  # [sample, ...] as stored (uint8 for images, int32 for tokens)
    labels: Tensor  # [sample]
    places: Tensor  # [sample]: where it stands in the dataset
    train: Shards
    test: Shards
    classes: int
    prepare: Prepare
    augment: Augment | None = None  # what training batches go through before they are prepared
    whole: Shards | None = None  # the dataset's own test part as one client's, where the global model is tested on it
    server: Tensor | None = None  # rows of what the server holds itself
    truth: Truth | None = None  # where there is something to estimate and nothing to classify

    @property
    def population(self) -> int:
        """Number of clients."""
        return len(self.train.sizes)

    @property
    def device(self) -> torch.device:
        """Where the data are."""
        return self.inputs.device

    def samples(self, rows: Tensor) -> Tensor:
        """Network inputs `[*rows.shape, ...]` of some rows."""
        flat = rows.flatten()
        # index_select copies whole rows; indexing with a tensor goes number by number and takes five times as long.
        if self._prepared is not None:
            x = self._prepared.index_select(0, flat)
        else:
            x = self.prepare(self.inputs.index_select(0, flat))
        return x.view(*rows.shape, *x.shape[1:])

    def augmented(self, rows: Tensor, keys: Tensor) -> Tensor:
        """Network inputs `[client, sample, ...]` of a training batch, each client's changed at random by its key."""
        assert self.augment is not None
        stored = self.inputs.index_select(0, rows.flatten()).view(*rows.shape, *self.inputs.shape[1:])
        return self.prepare(self.augment(stored, keys))

    def window(self, first: int, clients: int, size: int, columns: slice) -> Tensor:
        """Inputs `[client, column, ...]`: one stretch of the training samples of neighbouring clients.

        A view of what is kept, or prepared from a view of what is stored.

        Args:
            first: row of the first client's first sample.
            clients: how many; `lay_out` has put their samples side by side.
            size: samples that each of them holds.
            columns: the stretch of each client's samples.
        """
        stored = self.inputs if self._prepared is None else self._prepared
        x = stored[first : first + clients * size].view(clients, size, *stored.shape[1:])[:, columns]
        return x if self._prepared is not None else self.prepare(x)

    def tests(self, shards: Shards, clients: slice, columns: slice) -> Tensor:
        """Network inputs `[client, column, ...]` of some clients' samples to predict, their test samples above all."""
        if shards is self.test and self._tests is not None:
            return self._tests[clients, columns]
        return self.samples(shards.rows[clients, columns])

    @cached_property
    def unlabeled(self) -> Tensor | None:
        """Network inputs of what the server holds itself, without labels; None where it holds nothing."""
        return None if self.server is None else self.samples(self.server)

    def facts(self, ids: Tensor, round_: int, feed: Feed) -> Facts:
        """What the clients `ids` know of themselves."""
        sizes = self.train.sizes[ids]
        batch = sizes if feed.order == "full" else sizes.clamp_max(feed.batch)
        steps = torch.tensor([feeding.steps_in(feed, size) for size in sizes.tolist()], device=self.device)
        return Facts(ids, sizes, self._counts[ids], torch.full_like(ids, round_), batch, steps)

    @cached_property
    def _prepared(self) -> Tensor | None:
        """All network inputs, where they are small enough to keep beside the stored ones."""
        return self.prepare(self.inputs) if self._is_kept(len(self.inputs)) else None

    @cached_property
    def _tests(self) -> Tensor | None:
        """All clients' test inputs side by side, likewise: they are the same at every test."""
        return self.samples(self.test.rows) if self._is_kept(self.test.rows.numel()) else None

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of one network input."""
        return tuple(self.prepare(self.inputs[:1]).shape[1:])

    def _is_kept(self, samples: int) -> bool:
        return 4 * samples * math.prod(self.shape) <= KEEP_UP_TO_BYTES

    @cached_property
    def _counts(self) -> Tensor:
        """Training samples of each class at each client."""
        held = torch.arange(self.train.rows.shape[1], device=self.device) < self.train.sizes[:, None]
        marks = torch.nn.functional.one_hot(self.labels[self.train.rows], self.classes) * held[..., None]
        return marks.sum(1)


def lay_out(
    inputs: np.ndarray,
    labels: np.ndarray,
    train: Sequence[np.ndarray],
    test: Sequence[np.ndarray],
    classes: int,
    prepare: Prepare,
    device: torch.device,
    augment: Augment | None = None,
    whole: np.ndarray | None = None,
    server: np.ndarray | None = None,
    truth: Truth | None = None,
) -> Resident:
    """The samples that clients hold, on a device: each client's training samples side by side, then all test samples.

    Args:
        inputs: of the whole dataset.
        labels: likewise.
        train: rows of each client into the dataset.
        test: likewise.
        classes: number of classes of the dataset.
        prepare: stored values to network inputs.
        device: where the samples are to be.
        augment: random changes of training batches.
        whole: rows that the global model is tested on instead of the clients' test samples.
        server: rows of what the server holds itself.
        truth: what estimates are held against, where there is nothing to classify.
    """
    held = np.concatenate(train)
    parts = test if whole is None else [*test, whole]
    tested, places = np.unique(np.concatenate(parts), return_inverse=True)
    order = np.concatenate([held, tested] if server is None else [held, tested, server])
    places = len(held) + places
    owned = sum(map(len, test))
    return Resident(
        inputs=torch.from_numpy(inputs[order]).to(device),
        labels=torch.from_numpy(labels[order]).to(device),
        places=torch.from_numpy(order).to(device),
        train=_shards(np.arange(len(held)), train, device),
        test=_shards(places[:owned], test, device),
        classes=classes,
        prepare=prepare,
        augment=augment,
        whole=None if whole is None else _shards(places[owned:], [whole], device),
        server=None if server is None else len(order) - len(server) + torch.arange(len(server), device=device),
        truth=truth,
    )


def lay_out_beside(data: Resident, inputs: np.ndarray, labels: np.ndarray, places: np.ndarray) -> Resident:
    """Samples of another dataset, prepared as those of `data` are, to be tested on and on nobody's behalf.

    Args:
        data: what the models were trained on.
        inputs: of the samples.
        labels: of the samples, in their own dataset.
        places: where the samples stand in their own dataset.
    """
    rows = np.arange(len(labels))
    found = lay_out(inputs, labels, [rows[:0]], [rows], data.classes, data.prepare, data.device, whole=rows)
    return replace(found, places=torch.from_numpy(places).to(data.device))


def _shards(places: np.ndarray, indices: Sequence[np.ndarray], device: torch.device) -> Shards:
    """Places cut into one padded row a client, as long as that client's indices."""
    sizes = torch.tensor([len(own) for own in indices])
    rows = torch.zeros(len(indices), max(1, int(sizes.max())), dtype=torch.int64)
    for client, own in enumerate(torch.split(torch.from_numpy(places), sizes.tolist())):
        rows[client, : len(own)] = own
    return Shards(rows.to(device), sizes.to(device))
