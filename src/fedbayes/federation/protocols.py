"""At which point of a round the personal model is tested: named protocols, each a change to a method.

A method has a protocol of its own, its `adapt`. An experiment may ask for another one by name:

- `broadcast`: right after the broadcast, before any local work;
- `trained`: as the client's last training visit left it, whatever the server has sent since;
- `fine-tuned`: the broadcast and one local visit more;
- `adapted`: the broadcast and a few batches of the client's training data.

They differ by points of accuracy, so a number without its protocol means little. None of them touches the training.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fedbayes.federation.contract import Client, Down, Facts, Feed, Key, Method, Phase, Server, Tree, Visit, Work
from fedbayes.reading import ConfigError


def for_newcomers(method: Method, newcomer: str | None) -> Method:
    """The method with newcomers brought to their models as `newcomer` says; None leaves the method's own way.

    Args:
        method: whose `newcomer` is replaced.
        newcomer: `frozen-shared` (only a private part is trained) or `fine-tuned` (an ordinary local visit).
    """
    if newcomer == "frozen-shared" and not method.freezes_shared:
        raise ConfigError(
            "protocol.newcomer: found 'frozen-shared', but this method has no private part to train alone"
        )
    if newcomer == "fine-tuned":
        return method._replace(newcomer=Visit(method.train.begin, method.train.phases, method.adapt.end))
    return method


def under_protocol(method: Method, personal: str | None, batches: int | None = None) -> Method:
    """The method with its personal model tested as `personal` says; None leaves the method's own way.

    Args:
        method: whose `adapt` is replaced.
        personal: name of the protocol (`config.Personal`).
        batches: of `adapted`, how many each of its phases takes.
    """
    if personal is None:
        return method
    if personal == "trained":
        return _kept(method)
    phases = {"broadcast": (), "fine-tuned": method.train.phases, "adapted": _few(method, batches or 1)}[personal]
    return method._replace(adapt=Visit(method.train.begin, phases, method.adapt.end))


def _few(method: Method, batches: int) -> tuple[Phase, ...]:
    """The method's own adaptation, or its training where it has none, cut to some batches."""

    def cut(phase: Phase) -> Phase:
        def feed(experiment: Feed) -> Feed:
            own = phase.feed(experiment) if phase.feed else experiment
            return own._replace(amount=batches, unit="batches", split="train")

        return phase._replace(feed=feed, length=None)

    return tuple(cut(phase) for phase in method.adapt.phases or method.train.phases)


class Kept(NamedTuple):
    """A client and the models its last training visit ended with."""

    client: Client
    models: dict[str, Tree]


def own_state(clients: Client) -> Client:
    """What the method itself keeps at clients, without models kept for a protocol."""
    return clients.client if isinstance(clients, Kept) else clients


def _kept(method: Method) -> Method:
    """The method whose clients keep the models of their last training visit, to be tested as they are."""
    train, models = method.train, method.adapt.end

    def join(server: Server, facts: Facts, key: Key) -> Kept:
        client = method.join(server, facts, key)
        return Kept(client, models(train.begin(method.send(server, facts.id), client, facts, key)))

    def unwrapped(visit: Visit) -> Visit:
        def begin(down: Down, client: Kept, facts: Facts, key: Key) -> Work:
            return visit.begin(down, client.client, facts, key)

        return visit._replace(begin=begin)

    def end(work: Work) -> tuple[Kept, Any, Any]:
        client, up, info = train.end(work)
        return Kept(client, models(work)), up, info

    def recall(down: Down, client: Kept, facts: Facts, key: Key) -> dict[str, Tree]:
        return client.models

    return method._replace(
        join=join,
        train=unwrapped(train)._replace(end=end),
        adapt=Visit(recall, (), lambda kept: kept),
        newcomer=unwrapped(method.newcomer),
    )
