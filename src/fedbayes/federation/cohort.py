"""One visit at every client of a cohort: a function written for one client, lifted over all of them.

Two ways to lift, chosen by a static rule and never by a timing:

- `vmap`: the clients' states are stacked along a first axis and each step runs once for all of them;
- `loop`: the same code, one client at a time, for what cannot be vmapped or is slower so.

Within one way of lifting, results are the same bits whatever the chunk size and the order of clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fedbayes.federation import feed as feeding
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Batch, Client, Down, Feed, Method, Phase, Tree, Visit, Work
from fedbayes.federation.resident import Resident

Lift = Literal["vmap", "loop"]


def choose_lift(method: Method, network_kind: str, device: torch.device) -> Lift:
    """The written rule: loop if the method cannot be traced, the network is recurrent, or it convolves on the CPU."""
    if not method.traceable or network_kind == "recurrent" or (network_kind == "conv" and device.type == "cpu"):
        return "loop"
    return "vmap"


def lifted(function: Callable[..., Tree], lift: Lift, in_dims: int | tuple[int | None, ...] = 0) -> Callable[..., Tree]:
    """A function of one client as a function of stacked clients. Under `loop` the stack must hold a single client."""
    if lift == "vmap":
        return torch.vmap(function, in_dims=in_dims)

    def alone(*args: Tree) -> Tree:
        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        bare = [trees.take(arg, 0) if dim == 0 else arg for arg, dim in zip(args, dims, strict=True)]
        return trees.each(lambda leaf: leaf.unsqueeze(0), function(*bare))

    return alone


class Guests(NamedTuple):
    """Clients about to be visited: who, what they were sent, what they keep, batches they have taken before."""

    ids: Tensor
    down: Down
    clients: Client
    seen: Tensor


class Outcome(NamedTuple):
    """What the visits gave, stacked over clients, and the batches each client took of its training data."""

    out: Tree
    taken: Tensor


def visit_all(
    visit: Visit, guests: Guests, data: Resident, feed: Feed, key: Tensor, round_: int, lift: Lift, chunk: int | None
) -> Outcome:
    """Visit every guest, as many at a time as `chunk` allows.

    Args:
        visit: what happens at one client.
        guests: stacked over clients.
        data: where batches are gathered from.
        feed: the experiment's feed, for phases that have none of their own.
        key: names the purpose (`train`, `adapt`); folded with round and client inside.
        round_: rounds completed before this visit.
        lift: how to lift.
        chunk: clients in memory at once; None means all.
    """
    size = 1 if lift == "loop" else (chunk or len(guests.ids))
    outcomes = []
    for first in range(0, len(guests.ids), size):
        part = Guests(*(trees.take(member, slice(first, first + size)) for member in guests))
        outcomes.append(_visit_chunk(visit, part, data, feed, key, round_, lift))
    return Outcome(trees.concatenate([o.out for o in outcomes]), torch.cat([o.taken for o in outcomes]))


def _visit_chunk(
    visit: Visit, guests: Guests, data: Resident, feed: Feed, key: Tensor, round_: int, lift: Lift
) -> Outcome:
    keys = rng.fold(key.to(data.device), round_, guests.ids)
    facts = data.facts(guests.ids, round_)
    work = lifted(visit.begin, lift)(guests.down, guests.clients, facts, rng.fold(keys, 0))
    # What was broadcast has stride 0 along the clients' axis; steps want every client to own its numbers.
    work = trees.each(lambda leaf: leaf.contiguous().clone(), work)
    taken = torch.zeros_like(guests.seen)
    for number, phase in enumerate(visit.phases, start=1):
        own = phase.feed or feed
        work, batches = _run_phase(phase, own, work, guests, data, rng.fold(keys, number), taken, lift)
        if own.split == "train":
            taken = taken + batches
    return Outcome(lifted(visit.end, lift)(work), taken)


def _run_phase(
    phase: Phase, feed: Feed, work: Work, guests: Guests, data: Resident, keys: Tensor, taken: Tensor, lift: Lift
) -> tuple[Work, Tensor]:
    """All steps of one phase; clients that need fewer steps than others stand still under a mask."""
    shards = data.train if feed.split == "train" else data.test
    sizes = shards.sizes[guests.ids].tolist()
    if phase.length is not None:
        counts = [int(n) for n in lifted(phase.length, lift)(work).tolist()]
    else:
        counts = [feeding.steps_in(feed, size) for size in sizes]
    rows, masks = _gather_plan(feed, sizes, counts, guests.seen + taken, keys, shards.rows[guests.ids])
    step, most = lifted(phase.step, lift), max(counts)
    ragged = min(counts) < most
    needed = torch.tensor(counts, device=data.device)
    for t in range(most):
        x, y = data.prepare(data.inputs[rows[t]].flatten(0, -data.inputs.dim())), data.labels[rows[t]]
        x = x.reshape(*rows[t].shape, *x.shape[1:])
        new = step(work, Batch(x, y, masks[t].to(x.dtype)), rng.fold(keys, t))
        work = _where(t < needed, new, work) if ragged else new
    return work, needed * feed.draws


def _gather_plan(
    feed: Feed, sizes: list[int], counts: list[int], seen: Tensor, keys: Tensor, own_rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows `[step, client, (draw,) column]` of the resident tensor for a whole phase, and their masks."""
    columns, most = feeding.width(feed, own_rows.shape[1]), max(counts)
    shape = (len(sizes), most, feed.draws, columns)
    places, masks = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)
    for c, (size, count, start, key) in enumerate(zip(sizes, counts, seen.tolist(), keys.tolist(), strict=True)):
        place, mask = feeding.positions(feed, size, count, columns, start, key)
        places[c, :count] = place.reshape(count, feed.draws, columns)
        masks[c, :count] = mask.reshape(count, feed.draws, columns)
    flat = places.reshape(len(sizes), -1).to(own_rows.device)
    rows = own_rows.gather(1, flat).reshape(shape).movedim(1, 0)
    masks = masks.to(own_rows.device).movedim(1, 0)
    return (rows.squeeze(2), masks.squeeze(2)) if feed.draws == 1 else (rows, masks)


def _where(alive: Tensor, new: Work, old: Work) -> Work:
    """The new state where a client is still at work, the old one elsewhere."""

    def pick(fresh: Tensor, kept: Tensor) -> Tensor:
        if fresh is kept:
            return kept
        return torch.where(alive.reshape(-1, *[1] * (kept.dim() - 1)), fresh, kept)

    return trees.each(pick, new, old)
