r"""Networks of which a part is shared: FedPer, FedRep, LG-FedAvg, and local training, which shares nothing.

A client holds $(\theta, \phi_i)$: $\theta$ is the server's, $\phi_i$ its own. A visit is a number of *stages*; in each
batch of a stage some weights take a number of steps (`Pass`). The server averages the $\theta_i$ that come back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from fedbayes.autodiff import grad_and_value
from fedbayes.config import MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Cohort, Facts, Feed, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.optim import OptimiserState, optimiser
from fedbayes.parts.average import Weighting, shares, weighted_mean
from fedbayes.parts.sharing import Sharing, part, sharing
from fedbayes.parts.weights import Meter, batch_loss, dtype_of, new_meter, probabilities
from fedbayes.tensors import Params


class Descent(MethodConfig):
    """How a client descends; fields that these methods have in common."""

    lr: float = Field(ge=0, description="eta, step size.")
    optimiser: Literal["sgd", "adam"] = Field(description="Of all weights.")
    momentum: float = Field(ge=0, lt=1, description="Momentum of SGD; Adam has none of this kind.")
    weight_decay: float = Field(ge=0, description="L2 pull on weights, not on biases.")
    optimiser_state: Literal["fresh", "kept"] = Field(
        description="Velocity or moments: fresh at every visit, or kept by the client for the whole run."
    )


class Pass(NamedTuple):
    """Steps on one batch: which weights move, and how many steps they take."""

    moves: tuple[str, ...]
    steps: int = 1


class Stage(NamedTuple):
    """A phase of a visit: what each batch does, and which batches (None: the experiment's)."""

    passes: tuple[Pass, ...]
    feed: Callable[[Feed], Feed] | None = None


class Server(NamedTuple):
    """The shared weights, and those that clients begin their private part with."""

    shared: Params
    private: Params


class Client(NamedTuple):
    """What a client keeps: its own weights, the beginnings of those it resets, the state of its optimiser."""

    own: Params
    beginnings: Params
    optimiser: OptimiserState


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    beginnings: Params
    optimiser: OptimiserState
    meter: Meter


def partly_shared(
    config: Descent,
    network: Network,
    shared: str,
    stages: Callable[[Sharing], tuple[Stage, ...]],
    weighting: Weighting = "samples",
    reset: str = "none",
    loads_broadcast: bool = True,
    common_start: bool = True,
) -> Method:
    """A method of this family.

    Args:
        config: how clients descend.
        network: what they train.
        shared: layers that travel (`sharing.Layers`).
        stages: of a training visit, by who has which weights.
        weighting: of the server's average.
        reset: layers that begin every visit anew.
        loads_broadcast: False: a client never puts what the server sent into its network.
        common_start: whether all clients begin with the same private weights, or each with a draw of its own.
    """
    names = tuple(network.init(torch.Generator().manual_seed(0)))
    roles = sharing(network, names, shared, reset)
    own = roles.kept if loads_broadcast else roles.shared + roles.kept
    descent = optimiser(config.optimiser, config.lr, config.momentum, config.weight_decay)

    def in_order(*parts: Params) -> Params:
        together = {name: w for weights in parts for name, w in weights.items()}
        return part(together, names)

    def init(key: Key, population: int) -> Server:
        weights = network.init(rng.generator(key))
        return Server(part(weights, roles.shared), part(weights, roles.private))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        private = server.private
        if not common_start:
            drawn = network.init(rng.generator(key))
            private = {name: drawn[name].to(w.device) for name, w in private.items()}
        weights = in_order(server.shared, private)
        state = descent.start(weights) if config.optimiser_state == "kept" else {}
        return Client(part(weights, own), part(weights, roles.reset), state)

    def send(server: Server, client: Tensor) -> Params:
        return server.shared

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        weights = in_order(down, client.own, client.beginnings)
        state = client.optimiser if config.optimiser_state == "kept" else descent.start(weights)
        return Work(weights, client.beginnings, state, new_meter(facts, dtype_of(weights)))

    def phase(stage: Stage) -> Phase:
        def step(work: Work, batch: Batch, key: Key) -> Work:
            weights, state, first = work.weights, work.optimiser, None
            for moves, steps in stage.passes:
                for _ in range(steps):
                    fixed = {name: w for name, w in weights.items() if name not in moves}
                    grads, loss = grad_and_value(loss_of_some)(part(weights, moves), fixed, network, batch)
                    moved, turned = descent.step(part(weights, moves), grads, _known(state, moves))
                    weights, state = in_order(weights, moved), state | turned
                    first = loss if first is None else first
            return Work(weights, work.beginnings, state, work.meter if first is None else work.meter.add(first))

        return Phase(step, stage.feed)

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        state = work.optimiser if config.optimiser_state == "kept" else {}
        client = Client(part(work.weights, own), work.beginnings, state)
        return client, part(work.weights, roles.shared), work.meter.info()

    def merge(server: Server, up: Params, cohort: Cohort, key: Key) -> Server:
        if not up:
            return server
        return server._replace(shared=weighted_mean(up, shares(cohort, weighting, dtype_of(up))))

    def models(work: Work) -> dict[str, Params]:
        return {"pm": work.weights}

    # A newcomer trains what is not shared; the shared part stays as the server has it. Where everything is shared it
    # has nothing of its own to train, and tests the global model.
    alone = own + roles.reset
    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, tuple(phase(stage) for stage in map(_moving, stages(roles)) if stage.passes), end),
        merge=merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin, (phase(Stage((Pass(alone),))),) if alone else (), models),
        common=None if roles.private or not loads_broadcast else lambda server: server.shared,
        predict=lambda weights, x, key: probabilities(network, weights, x),
        freezes_shared=bool(alone),
    )


def _moving(stage: Stage) -> Stage:
    """The stage without passes that move nothing: a part of the network may be empty."""
    return stage._replace(passes=tuple(own for own in stage.passes if own.moves))


def loss_of_some(moving: Params, fixed: Params, network: Network, batch: Batch) -> Tensor:
    """The loss as a function of the weights that move."""
    return batch_loss(fixed | moving, network, batch)


def _known(state: OptimiserState, names: tuple[str, ...]) -> OptimiserState:
    """The part of an optimiser's state that belongs to some weights; empty where it keeps nothing."""
    found: dict[str, Any] = {name: state[name] for name in names if name in state}
    return found
