"""One visit at every client of a cohort: begin, the steps of each phase, end.

Clients of unequal size or with unequal numbers of steps run under masks; a cohort too large for memory runs in chunks.
Neither changes a number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from fedbayes.federation import feed as feeding
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Batch, Client, Down, Feed, Phase, Tree, Visit, Work
from fedbayes.federation.lifting import Lifting
from fedbayes.federation.resident import Resident

# Steps between two looks at whether a phase is done.
LOOK_EVERY = 50
# Folded into a step's key for what happens to its images, which must not share random numbers with the step itself.
AUGMENT = 0xA06


class Guests(NamedTuple):
    """Clients about to be visited: who, what they were sent, what they keep, batches they have taken before."""

    ids: Tensor
    down: Down
    clients: Client
    seen: Tensor


class Outcome(NamedTuple):
    """What the visits gave, stacked over clients, and what they took.

    Attributes:
        out: what `end` gave.
        taken: batches each client took of its training data.
        gradients: gradients each client worked out.
        steps: steps each client took in each phase, `[client, phase]`.
    """

    out: Tree
    taken: Tensor
    gradients: Tensor
    steps: Tensor


@torch.no_grad()
def visit_all(
    visit: Visit, guests: Guests, data: Resident, feed: Feed, key: Tensor, round_: int, lifting: Lifting
) -> Outcome:
    """Visit every guest, as many at a time as memory allows.

    Args:
        visit: what happens at one client.
        guests: stacked over clients.
        data: where batches are gathered from.
        feed: the experiment's feed, for phases that have none of their own.
        key: names the purpose (`train`, `adapt`); folded with round and client inside.
        round_: rounds completed before this visit.
        lifting: how one client's code runs for many, and how many at a time.
    """
    present, size = len(guests.ids), lifting.clients_at_once(len(guests.ids))
    # Views and gathers differ in their strides, and a compiled step is compiled for one of them.
    views = not lifting.compiled or (
        present == data.population and present % size == 0 and len(set(data.train.sizes.tolist())) == 1
    )
    outcomes = []
    for first in range(0, present, size):
        rows: Tensor | slice = slice(first, first + size)
        if first + size > present:
            # The last chunk is filled up with guests visited before: a compiled step serves one number of clients.
            rows = torch.arange(first, first + size, device=data.device) % present
        part = Guests(*(trees.take(member, rows) for member in guests))
        outcomes.append(_visit_chunk(visit, part, data, feed, key, round_, lifting, views))
    return trees.take(trees.concatenate(outcomes), slice(present))


def _visit_chunk(
    visit: Visit, guests: Guests, data: Resident, feed: Feed, key: Tensor, round_: int, lifting: Lifting, views: bool
) -> Outcome:
    keys = rng.fold(key.to(data.device), round_, guests.ids)
    facts = data.facts(guests.ids, round_, feed)
    work = lifting.over(visit.begin)(guests.down, guests.clients, facts, rng.fold(keys, 0))
    if visit.phases:
        # What was broadcast has stride 0 along the clients' axis; steps want every client to own its numbers.
        work = trees.each(lambda leaf: leaf.clone(memory_format=torch.contiguous_format), work)
    # Training batches go on from visit to visit; test batches, which few methods look at, begin anew.
    taken = {"train": torch.zeros_like(guests.seen), "test": -guests.seen}
    gradients = torch.zeros_like(guests.seen)
    steps = gradients.new_zeros(len(guests.ids), len(visit.phases))
    for number, phase in enumerate(visit.phases, start=1):
        own = phase.feed(feed) if phase.feed else feed
        done = _run_phase(phase, own, work, guests, data, rng.fold(keys, number), taken[own.split], lifting, views)
        work, gradients = done.work, gradients + done.gradients
        steps[:, number - 1] = done.steps
        taken[own.split] = taken[own.split] + done.batches
    return Outcome(lifting.over(visit.end)(work), taken["train"], gradients, steps)


class _Done(NamedTuple):
    """A phase that has been run: the state it left, and what it took, one entry a client."""

    work: Work
    batches: Tensor
    gradients: Tensor
    steps: Tensor


def _run_phase(
    phase: Phase,
    feed: Feed,
    work: Work,
    guests: Guests,
    data: Resident,
    keys: Tensor,
    taken: Tensor,
    lifting: Lifting,
    views: bool,
) -> _Done:
    """All steps of one phase; clients that need fewer steps than others stand still under a mask."""
    shards = data.train if feed.split == "train" else data.test
    sizes = shards.sizes[guests.ids].tolist()
    if phase.length is not None:
        counts = [int(n) for n in lifting.over(phase.length)(work).tolist()]
    else:
        counts = [feeding.steps_in(feed, size) for size in sizes]
    # Where every step sees all samples, the plan of one step serves them all.
    planned = [min(count, 1) for count in counts] if feed.order == "full" else counts
    rows, masks = _gather_plan(feed, sizes, planned, guests.seen + taken, keys, shards.rows[guests.ids])
    step, most = lifting.step(phase.step), max(counts)
    ragged = min(counts) < most
    needed = torch.tensor(counts, device=data.device)
    step_keys = rng.fold(keys, torch.arange(most, device=data.device)[:, None])
    if data.augment is not None and feed.split == "train":
        inputs: Callable[[int], Tensor] = partial(_augmented, data, rows, rng.fold(step_keys, AUGMENT))
    else:
        inputs = _inputs(feed, rows, guests.ids.tolist(), (guests.seen + taken).tolist(), sizes, data, views)
    tables = (table.expand(most, *table.shape[1:]) for table in (data.labels[rows], masks))
    labels, masks, step_keys = (lifting.enter(table, 1) for table in (*tables, step_keys))
    work, per_step, until = lifting.enter(work), 0, needed
    for t in range(most):
        if phase.done is not None and t % LOOK_EVERY == LOOK_EVERY - 1:
            done = lifting.over(phase.done)(lifting.leave(work))
            until = torch.where(done, until.clamp_max(t), until)
            if done.all():
                break
        x = lifting.enter(inputs(t))
        mask = masks[t].to(x.dtype) if x.is_floating_point() else masks[t]
        batch = Batch(x, labels[t], mask)
        if t == 0:
            per_step = lifting.gradients(phase.step, work, batch, step_keys[t])
        new = step(work, batch, step_keys[t])
        work = _where(t < needed, new, work) if ragged else new
    return _Done(lifting.leave(work), needed * feed.draws, until * per_step, until)


def _augmented(data: Resident, rows: Tensor, keys: Tensor, t: int) -> Tensor:
    """The inputs of step t, changed at random; several draws of a step are one batch after the other."""
    batch = rows[t] if len(rows) > 1 else rows[0]
    return data.augmented(batch.flatten(1), keys[t]).view(*batch.shape, *data.shape)


def _inputs(
    feed: Feed, rows: Tensor, ids: list[int], seen: list[int], sizes: list[int], data: Resident, views: bool
) -> Callable[[int], Tensor]:
    """The inputs of step t: views where neighbouring clients walk through their samples in step, otherwise gathers."""
    if feed.order == "full":
        everything = data.samples(rows).squeeze(0)
        return lambda t: everything
    columns = rows.shape[2]
    neighbours = feed.split == "train" and ids == list(range(ids[0], ids[0] + len(ids)))
    if not (views and neighbours and feeding.aligned(feed, sizes, columns, seen)):
        return lambda t: data.samples(rows[t])
    first = int(data.train.rows[ids[0], 0])

    def view(t: int) -> Tensor:
        begin = (seen[0] + t) * columns % sizes[0]
        return data.window(first, len(ids), sizes[0], slice(begin, begin + columns))

    return view


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
    rows = own_rows.gather(1, flat).reshape(shape).movedim(1, 0).contiguous()
    masks = masks.to(own_rows.device).movedim(1, 0).contiguous()
    return (rows.squeeze(2), masks.squeeze(2)) if feed.draws == 1 else (rows, masks)


def _where(alive: Tensor, new: Work, old: Work) -> Work:
    """The new state where a client is still at work, the old one elsewhere."""

    def pick(fresh: Tensor, kept: Tensor) -> Tensor:
        if fresh is kept:
            return kept
        return torch.where(alive.reshape(-1, *[1] * (kept.dim() - 1)), fresh, kept)

    return trees.each(pick, new, old)
