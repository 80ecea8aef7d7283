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
from fedbayes.federation.contract import Client, Cohort, Down, Feed, Info, Method, Server
from fedbayes.federation.lifting import Lifting
from fedbayes.federation.resident import Resident


class State(NamedTuple):
    """The whole federation between two rounds: what a checkpoint holds."""

    server: Server
    clients: Client  # stacked over the population
    seen: Tensor  # batches each client has taken so far
    round: Tensor  # 0-dim: rounds completed


class Report(NamedTuple):
    """What a round reports besides the new state."""

    info: Info  # stacked over the clients that trained
    floats_down: int  # numbers sent to one client
    floats_up: int  # numbers one client sent


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
    server = trees.to_device(method.init(federation.key("init"), data.population), data.device)
    ids = torch.arange(data.population, device=data.device)
    facts, keys = data.facts(ids, 0), rng.fold(federation.key("join").to(data.device), ids)
    clients = trees.stack([method.join(server, trees.take(facts, i), keys[i]) for i in range(data.population)])
    return State(server, clients, torch.zeros_like(ids), torch.tensor(0))


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
    cohort = Cohort(chosen, data.train.sizes[chosen], data.population)
    server = method.merge(state.server, up, cohort, rng.fold(federation.key("merge"), round_))
    new = State(
        server,
        trees.put(state.clients, ids, clients),
        state.seen.index_add(0, ids, outcome.taken),
        state.round + 1,
    )
    return new, Report(info, trees.numel(down) // len(ids), trees.numel(up) // len(chosen))


def send(federation: Federation, server: Server, ids: Tensor) -> Down:
    """What the server sends to each of `ids`, stacked."""
    return torch.vmap(federation.method.send, in_dims=(None, 0))(server, ids)


def choose(federation: Federation, round_: int) -> Tensor:
    """Clients whose uploads count in a round: a keyed choice without replacement, sorted."""
    data = federation.data
    stream = rng.generator(rng.fold(federation.key("participation"), round_))
    order = torch.randperm(data.population, generator=stream)
    if federation.newcomers:
        order = order[torch.isin(order, torch.tensor(federation.newcomers), invert=True)]
    return order[: federation.clients_per_round].sort().values.to(data.device)
