"""Rounds: choose clients, send, visit, merge. A generator of states; the caller decides what to test and to keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fedbayes.federation import rng, trees
from fedbayes.federation.cohort import Guests, visit_all
from fedbayes.federation.contract import Client, Cohort, Down, Feed, Info, Method, Server, Up
from fedbayes.federation.lifting import Lifting
from fedbayes.federation.resident import Resident
from fedbayes.tensors import exact


class State(NamedTuple):
    """The whole federation between two rounds: what a checkpoint holds."""

    server: Server
    clients: Client  # stacked over the population
    seen: Tensor  # batches each client has taken so far
    round: Tensor  # 0-dim: rounds completed


class Report(NamedTuple):
    """What a round reports besides the new state."""

    ids: Tensor  # clients that trained
    info: Info  # what each reports, stacked
    floats_down: int  # numbers sent to one client
    floats_up: int  # numbers one client sent
    gradients: float  # gradients a client worked out, mean over those that trained
    steps: tuple[float, ...]  # steps a client took in each phase of its visit, likewise


@dataclass(frozen=True)
class Federation:
    """Everything a round needs that does not change from round to round."""

    method: Method
    data: Resident
    feed: Feed
    seed: int
    clients_per_round: int
    trains: Literal["selected", "all"]
    lifting: Lifting
    newcomers: tuple[int, ...] = ()  # clients that never take part in training
    newcomer_visits: int = 1  # local visits a newcomer makes before it is tested
    replicates: int = 1  # federations side by side, each with its own server; clients of one are neighbours

    @cached_property
    def population(self) -> int:
        """Clients of one federation."""
        return self.data.population // self.replicates

    @cached_property
    def trained(self) -> tuple[int, ...]:
        """Clients that may take part in training."""
        new = set(self.newcomers)
        return tuple(client for client in range(self.data.population) if client not in new)

    def key(self, purpose: str) -> Tensor:
        """The first key of a purpose under this federation's seed."""
        return rng.root(self.seed, purpose)


def start(federation: Federation) -> State:
    """The state before the first round: an initial server, and every client of the population enrolled."""
    data, method = federation.data, federation.method
    keys = [federation.key("init")]
    if federation.replicates > 1:
        keys = [rng.fold(keys[0], replicate) for replicate in range(federation.replicates)]
    servers = [trees.to_device(method.init(key, federation.population), data.device) for key in keys]
    server = servers[0] if federation.replicates == 1 else trees.stack(servers)
    ids = torch.arange(data.population, device=data.device)
    return State(server, enrol(federation, server, ids, 0), torch.zeros_like(ids), torch.tensor(0))


def enrol(federation: Federation, server: Server, ids: Tensor, round_: int) -> Client:
    """What the clients `ids` keep when they have just joined, stacked."""
    facts = federation.data.facts(ids, round_, federation.feed)._replace(id=ids % federation.population)
    keys = rng.fold(federation.key("join").to(ids.device), ids)
    own = (server,) if federation.replicates == 1 else _unstacked(server, federation.replicates)
    joined = [
        federation.method.join(own[client // federation.population], trees.take(facts, at), keys[at])
        for at, client in enumerate(ids.tolist())
    ]
    return trees.stack(joined)


def _unstacked(tree: Server, count: int) -> tuple[Server, ...]:
    return tuple(trees.take(tree, at) for at in range(count))


def rounds(federation: Federation, state: State, last: int) -> Iterator[tuple[State, Report]]:
    """States after each round until `last` rounds are complete."""
    while int(state.round) < last:
        state, report = advance(federation, state)
        yield state, report


def advance(federation: Federation, state: State) -> tuple[State, Report]:
    """One round."""
    method, data, round_ = federation.method, federation.data, int(state.round)
    chosen = choose(federation, round_)
    ids = torch.tensor(federation.trained, device=data.device) if federation.trains == "all" else chosen
    # Before chunking: what is sent may depend on who else is there, and must not on how many fit into memory.
    down = send(federation, state.server, ids)
    guests = Guests(ids, down, trees.take(state.clients, ids), state.seen[ids])
    outcome = visit_all(
        method.train, guests, data, federation.feed, federation.key("train"), round_, federation.lifting
    )
    clients, up, info = outcome.out
    uploading = torch.isin(ids, chosen).nonzero().squeeze(1)
    up = trees.take(up, uploading)
    server = merge(federation, state.server, up, chosen, round_)
    new = State(
        server,
        trees.put(state.clients, ids, clients),
        state.seen.index_add(0, ids, outcome.taken),
        state.round + 1,
    )
    gradients, steps = float(exact(outcome.gradients).mean()), tuple(exact(outcome.steps).mean(0).tolist())
    return new, Report(ids, info, trees.numel(down) // len(ids), trees.numel(up) // len(chosen), gradients, steps)


def send(federation: Federation, server: Server, ids: Tensor) -> Down:
    """What the server sends to each of `ids`, stacked."""
    if federation.replicates == 1:
        return torch.vmap(federation.method.send, in_dims=(None, 0))(server, ids)
    own = trees.take(server, ids // federation.population)
    return torch.vmap(federation.method.send)(own, ids % federation.population)


def merge(federation: Federation, server: Server, up: Up, chosen: Tensor, round_: int) -> Server:
    """The server after the uploads of the chosen clients, stacked over replicates where there are several."""
    method, sizes, key = federation.method, federation.data.train.sizes[chosen], federation.key("merge")
    if federation.replicates == 1:
        cohort = Cohort(chosen, sizes, federation.population, len(federation.trained), federation.data.unlabeled)
        return method.merge(server, up, cohort, rng.fold(key, round_))
    shape = (federation.replicates, federation.clients_per_round)

    def one(server: Server, up: Up, ids: Tensor, sizes: Tensor, key: Tensor) -> Server:
        return method.merge(server, up, Cohort(ids, sizes, federation.population, federation.population), key)

    ids = (chosen % federation.population).view(shape)
    by_replicate = trees.each(lambda leaf: leaf.view(*shape, *leaf.shape[1:]), up)
    keys = rng.fold(key, round_, torch.arange(federation.replicates)).to(chosen.device)
    return torch.vmap(one)(server, by_replicate, ids, sizes.view(shape), keys)


def choose(federation: Federation, round_: int) -> Tensor:
    """Clients whose uploads count in a round: a keyed choice without replacement in each replicate, sorted."""
    key = rng.fold(federation.key("participation"), round_)
    if federation.replicates == 1:
        return _chosen(federation, key).to(federation.data.device)
    each = [_chosen(federation, rng.fold(key, r)) + r * federation.population for r in range(federation.replicates)]
    return torch.cat(each).to(federation.data.device)


def _chosen(federation: Federation, key: Tensor) -> Tensor:
    """Clients of one federation."""
    order = torch.randperm(federation.population, generator=rng.generator(key))
    if federation.newcomers:
        order = order[torch.isin(order, torch.tensor(federation.newcomers), invert=True)]
    return order[: federation.clients_per_round].sort().values
