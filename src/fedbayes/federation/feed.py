"""Which samples a client sees at each step: positions into its own data, drawn on the host, padded under a mask."""

from __future__ import annotations

import torch
from torch import Tensor

from fedbayes.federation.contract import Feed
from fedbayes.federation.rng import generator


def batches_per_epoch(feed: Feed, size: int) -> int:
    """Batches that cover a client's data once; the last one may be short."""
    return 1 if feed.order == "full" else -(-size // feed.batch)


def steps_in(feed: Feed, size: int) -> int:
    """Steps a client takes in one phase."""
    if size == 0:
        return 0
    return feed.amount if feed.unit == "batches" else -(-feed.amount * batches_per_epoch(feed, size) // feed.draws)


def width(feed: Feed, largest: int) -> int:
    """Columns of a batch: its size, or for `full` the largest client."""
    return largest if feed.order == "full" else min(feed.batch, largest)


def aligned(feed: Feed, sizes: list[int], columns: int, seen: list[int]) -> bool:
    """Whether every batch is one stretch of each client's samples, full and at the same place for all of them."""
    size = sizes[0]
    whole = feed.order == "cyclic" and feed.draws == 1 and size >= columns and size % columns == 0
    return whole and len(set(sizes)) == 1 and len({count % batches_per_epoch(feed, size) for count in seen}) == 1


def positions(feed: Feed, size: int, steps: int, columns: int, seen: int, key: int) -> tuple[Tensor, Tensor]:
    """Positions `[steps * draws, columns]` into a client's data, and the mask of real samples.

    Args:
        feed: order and batch size.
        size: samples the client has.
        steps: steps to take; each uses `feed.draws` batches.
        columns: columns of a batch, see `width`.
        seen: batches the client has taken in earlier rounds; only `cyclic` goes on from there.
        key: names the client's stream of this round and phase.
    """
    wanted = steps * feed.draws
    if wanted == 0:
        return torch.zeros(0, columns, dtype=torch.int64), torch.zeros(0, columns)
    batch = min(feed.batch, columns)
    if feed.order == "full":
        return _pad(torch.arange(size).expand(wanted, size), columns)
    if feed.order == "iid":
        drawn = torch.randint(size, (wanted, batch), generator=generator(key))
        return _pad(drawn, columns)
    per_epoch = batches_per_epoch(feed, size)
    if feed.order == "cyclic":
        epoch, numbers = torch.arange(size), (torch.arange(wanted) + seen) % per_epoch
        table, mask = _cut(epoch, per_epoch, batch, columns)
        return table[numbers], mask[numbers]
    stream = generator(key)
    epochs = [
        _cut(torch.randperm(size, generator=stream), per_epoch, batch, columns) for _ in range(-(-wanted // per_epoch))
    ]
    table, mask = (torch.cat(part) for part in zip(*epochs, strict=True))
    return table[:wanted], mask[:wanted]


def _cut(order: Tensor, pieces: int, batch: int, columns: int) -> tuple[Tensor, Tensor]:
    """An epoch's order cut into batches; the short last one is padded."""
    padded = torch.full((pieces * batch,), -1)
    padded[: len(order)] = order
    table, mask = _pad(padded.reshape(pieces, batch), columns)
    return table.clamp_min(0), mask


def _pad(table: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """A table widened to `columns`, with mask 0 for padding (and for entries of -1)."""
    wide = torch.full((table.shape[0], columns), -1)
    wide[:, : table.shape[1]] = table
    return wide.clamp_min(0), (wide >= 0).to(torch.float32)
