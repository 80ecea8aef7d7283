r"""Attentive message passing: the server keeps every client's model and sends each a mixture of its own.

FedAMP and HeurFedAMP (Huang et al. 2021) differ in the weights of the mixture $u_i = \sum_j \xi_{ij} w_j$ alone. The
client then minimises $F_i(w) + \frac{\lambda}{2\alpha_k} |w - u_i|^2$, beginning at $u_i$. The solver is SGD, whose
pull is at most $1 / \eta$: the whole way back to the mixture in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.flat import flatten, layout_of, unflatten
from fedbayes.config import MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Cohort, Facts, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.parts.weights import Meter, batch_loss, dtype_of, new_meter, probabilities
from fedbayes.tensors import Params


class Passing(MethodConfig):
    """Fields that both methods have."""

    lr: float = Field(ge=0, description="Step size of local SGD.")
    lam: float = Field(ge=0, description="lambda, weight of the pull towards the mixture; 0 for none.")
    alpha: float = Field(gt=0, description="alpha_k at the start; the pull is lambda / alpha_k.")
    alpha_decay: float = Field(gt=0, le=1, description="What alpha_k is multiplied by after every `alpha_rounds`.")
    alpha_rounds: PositiveInt = Field(description="Rounds between two changes of alpha_k.")
    start: Literal["mixture", "own"] = Field(description="Where a client begins a visit: at u_i, or at its own w_i.")


class Server(NamedTuple):
    """The latest model of each client."""

    models: Tensor  # [client, weight]
    seen: Tensor  # [client]: whether it has uploaded yet; the others' rows hold the initial model
    round: Tensor  # rounds completed


class Down(NamedTuple):
    """What a client is sent. alpha_k is part of the method, known to everybody, and does not travel."""

    mixture: Params


class Client(NamedTuple):
    """What a client keeps: its own model."""

    weights: Params


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    personal: Params  # what would be tested if the visit ended now
    mixture: Params  # u_i
    pull: Tensor  # lambda / alpha_k
    meter: Meter


# The weights xi_ij, j = 1..N, of one client; they sum to 1. Arguments: its own model [weight], everybody's
# [client, weight], who has uploaded [client], which client asks, alpha_k.
Mixing = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def message_passing(config: Passing, network: Network, mixing: Mixing) -> Method:
    """A method of this family.

    A client that has not uploaded yet has no model that others could use, and they none for it: it gets what `mixing`
    makes of the initial model's neighbours, or the initial model itself while nobody has uploaded.
    """
    layout = layout_of(network.init(torch.Generator().manual_seed(0)))
    lr = torch.tensor(config.lr, dtype=torch.float64)

    def alpha(round_: Tensor) -> Tensor:
        """alpha_k after some rounds."""
        times = torch.div(round_, config.alpha_rounds, rounding_mode="floor")
        return config.alpha * config.alpha_decay ** times.to(torch.float32)

    def init(key: Key, population: int) -> Server:
        weights = flatten(network.init(rng.generator(key)))
        return Server(weights.repeat(population, 1), torch.zeros(population, dtype=torch.bool), torch.tensor(0))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client(unflatten(server.models[facts.id], layout))

    def send(server: Server, client: Tensor) -> Down:
        """Message passing: u_i = sum_j xi_ij w_j."""
        own = server.models[client]
        xi = mixing(own, server.models, server.seen, client, alpha(server.round).to(own.dtype))
        return Down(unflatten(xi @ server.models, layout))

    def begin(down: Down, client: Client, facts: Facts, key: Key) -> Work:
        dtype = dtype_of(down.mixture)
        start = down.mixture if config.start == "mixture" else client.weights
        # As alpha_k falls the pull grows; beyond 1 / lr a step would overshoot the mixture and diverge.
        bound = 1 / config.lr if config.lr else torch.inf
        pull = (config.lam / alpha(facts.round).to(dtype)).clamp_max(bound)
        return Work(start, client.weights, down.mixture, pull, new_meter(facts, dtype))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        r"""One SGD step on $F_i(w) + \frac{\lambda}{2\alpha_k} |w - u_i|^2$."""
        grads, loss = grad_and_value(batch_loss)(work.weights, network, batch)
        pulled = {n: g + work.pull * (work.weights[n] - work.mixture[n]) for n, g in grads.items()}
        weights = optim.sgd(work.weights, pulled, lr)
        return Work(weights, weights, work.mixture, work.pull, work.meter.add(loss))

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        return Client(work.personal), work.personal, work.meter.info()

    def merge(server: Server, up: Params, cohort: Cohort, key: Key) -> Server:
        rows = torch.cat([leaf.flatten(1) for leaf in up.values()], 1)
        seen = server.seen.index_fill(0, cohort.ids, value=True)
        return Server(server.models.index_copy(0, cohort.ids, rows), seen, server.round + 1)

    def models(work: Work) -> dict[str, Params]:
        return {"pm": work.personal}

    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, (Phase(step),), end),
        merge=merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin, (Phase(step),), models),
        common=None,
        predict=lambda weights, x, key: probabilities(network, weights, x),
    )


def others(seen: Tensor, client: Tensor) -> Tensor:
    """Every client but this one that has uploaded a model."""
    return seen & (torch.arange(len(seen), device=seen.device) != client)


def squared_norms(models: Tensor) -> Tensor:
    """|w_j|^2 of stacked models."""
    return models.square().sum(1)


def completed(xi_others: Tensor, client: Tensor) -> Tensor:
    """The weights of a mixture from those of the others: what is left of 1 is the client's own."""
    rest = 1 - xi_others.sum()
    return torch.where(torch.arange(len(xi_others), device=xi_others.device) == client, rest, xi_others)
