r"""Ditto: a FedAvg model and, beside it, a personal model that is held near it.

Paper: Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
arXiv:2012.04221, Algorithms 1 and 2.

Idea: $\min_{v_i} F_i(v_i) + \frac{\lambda}{2} |v_i - w^*|^2$ with $w^*$ from FedAvg: $\lambda$ trades local fit for
robustness, between local training ($\lambda = 0$) and the global model.

Notation: $w^t$ -> `Server.weights`; $v_k$ -> `Client.personal`; $\lambda$ -> `lam`; $\eta$ -> `lr`.

Deviations: [C] is litian96/ditto@26d9b29 (TensorFlow).
    1. [C] takes, on each batch, one step of $v$ and one of the copy of $w$; the solver of the paper's Algorithm 2 runs
       one after the other. The two do not touch each other within a round, so the order changes nothing.
    2. Self-FL's synthetic runs subtract $\lambda (v - w^t)$ without the step size (its appendix); that diverges for
       lambda >= 2 - eta / sigma^2 -> `penalty: unscaled`.
    3. lambda is one number; [C] can choose it for each client from {0.1, 1, 2} by validation loss.
    4. A newcomer's personal model begins at the global one and takes local visits.

Reduces to: local training of v when lam = 0; FedAvg in its global model, whatever lam.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.config import MethodConfig
from fedbayes.federation.contract import Batch, Facts, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting
from fedbayes.parts.one_model import OneModel, Server
from fedbayes.parts.weights import Meter, batch_loss, dtype_of, new_meter
from fedbayes.tensors import Params


class Config(MethodConfig):
    """Fields of Ditto."""

    lr: float = Field(ge=0, description="eta, step size of both models.")
    lam: float = Field(ge=0, description="lambda, weight of the pull towards w^t.")
    penalty: Literal["scaled", "unscaled"] = Field(description="The pull in a step: eta lambda (v - w^t), or no eta.")
    weighting: Weighting = Field(description="Weights of the mean: n_k / n, or 1 / S.")


class Client(NamedTuple):
    """What a client keeps: its personal model."""

    personal: Params


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params  # the client's copy of the global model
    personal: Params
    centre: Params  # w^t
    meter: Meter  # of the personal model


def build(config: Config, network: Network) -> Method:
    """Ditto for a network."""
    server = OneModel(network, config.weighting)
    lr, lam = (torch.tensor(value, dtype=torch.float64) for value in (config.lr, config.lam))
    pull = lr * lam if config.penalty == "scaled" else lam

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client(server.weights)

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        return Work(down, client.personal, down, new_meter(facts, dtype_of(down)))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """Algorithm 2: v <- v - eta (grad F_k(v) + lambda (v - w^t)), and one step of FedAvg's model."""
        personal, loss = grad_and_value(batch_loss)(work.personal, network, batch)
        shared, _ = grad_and_value(batch_loss)(work.weights, network, batch)
        moved = {name: v - lr * personal[name] - pull * (v - work.centre[name]) for name, v in work.personal.items()}
        return Work(optim.sgd(work.weights, shared, lr), moved, work.centre, work.meter.add(loss))

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        return Client(work.personal), work.weights, work.meter.info()

    def models(work: Work) -> dict[str, Params]:
        return {"pm": work.personal}

    return Method(
        init=server.init,
        join=join,
        send=server.send,
        train=Visit(begin, (Phase(step),), end),
        merge=server.merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin, (Phase(step),), models),
        common=server.common,
        predict=server.predict,
    )
