"""The dataset as one resident tensor, and each client's samples as rows into it. A batch is a gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedbayes.federation.contract import Facts


class Shards(NamedTuple):
    """Rows of each client's samples, padded to the largest client."""

    rows: Tensor  # [client, largest], int64
    sizes: Tensor  # [client], int64


@dataclass(frozen=True)
class Resident:
    """All samples, who holds which, and how stored values become network inputs."""

    inputs: Tensor  # [sample, ...] as stored (uint8 for images)
    labels: Tensor  # [sample]
    train: Shards
    test: Shards
    classes: int
    prepare: Callable[[Tensor], Tensor]

    @property
    def population(self) -> int:
        """Number of clients."""
        return len(self.train.sizes)

    @property
    def device(self) -> torch.device:
        """Where the data are."""
        return self.inputs.device

    def facts(self, ids: Tensor, round_: int) -> Facts:
        """What the clients `ids` know of themselves."""
        return Facts(ids, self.train.sizes[ids], self._counts[ids], torch.full_like(ids, round_))

    @cached_property
    def _counts(self) -> Tensor:
        """Training samples of each class at each client."""
        held = torch.arange(self.train.rows.shape[1], device=self.device) < self.train.sizes[:, None]
        marks = torch.nn.functional.one_hot(self.labels[self.train.rows], self.classes) * held[..., None]
        return marks.sum(1)


def shards(indices: Sequence[np.ndarray], device: torch.device) -> Shards:
    """Index arrays, one a client, as padded rows on a device."""
    sizes = torch.tensor([len(rows) for rows in indices])
    rows = torch.zeros(len(indices), max(1, int(sizes.max())), dtype=torch.int64)
    for client, own in enumerate(indices):
        rows[client, : len(own)] = torch.from_numpy(np.ascontiguousarray(own))
    return Shards(rows.to(device), sizes.to(device))


def normalise(mean: Sequence[float], std: Sequence[float], dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Pixels 0-255 to (x / 255 - mean) / std for each channel: one multiplication and one addition."""
    scale = 1.0 / (255.0 * torch.tensor(std, dtype=torch.float64))
    shift = -torch.tensor(mean, dtype=torch.float64) / torch.tensor(std, dtype=torch.float64)

    def prepare(x: Tensor) -> Tensor:
        a, b = (t.to(x.device, dtype)[:, None, None] for t in (scale, shift))
        return torch.addcmul(b, x.to(dtype), a)

    return prepare
