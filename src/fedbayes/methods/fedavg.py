r"""FedAvg: local SGD from the server's weights, then a weighted mean.

Paper: McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, arXiv:1602.05629, Algorithm 1.

Idea: clients take several SGD steps on their own data before anything is averaged, which saves rounds.

Notation: $w^t$ -> `Server.weights`; $\eta$ -> `lr`; $n_k / n$ -> `weighting: samples`.

Deviations:
    1. A round is a number of batches or of epochs as the experiment's `local` says; Algorithm 1 has epochs, the code
       base of the personalised papers (CharlieDinh/pFedMe) runs batches from an unshuffled cyclic loader.
    2. The personal model is the global one after one more local visit (fine-tuning on the client's training data), for
       newcomers too. Algorithm 1 has no personal model; FedUAB evaluates FedAvg so.

Reduces to: plain SGD when there is one client; the broadcast weights when lr = 0.
"""

from __future__ import annotations

from typing import NamedTuple

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
    """Fields of FedAvg."""

    lr: float = Field(ge=0, description="eta, step size of local SGD.")
    momentum: float = Field(ge=0, lt=1, description="Momentum of local SGD, restarted at every visit; 0 in the paper.")
    weighting: Weighting = Field(description="Weights of the mean: n_k / n, or 1 / S.")


class Client(NamedTuple):
    """A client keeps nothing between rounds."""


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    velocity: Params  # empty without momentum
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """FedAvg for a network."""
    server = OneModel(network, config.weighting)
    # 0-dim tensors, not Python numbers: a compiled step then serves every learning rate.
    lr, decay = torch.tensor(config.lr, dtype=torch.float64), torch.tensor(config.momentum, dtype=torch.float64)

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client()

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        velocity = {name: torch.zeros_like(w) for name, w in down.items()} if config.momentum else {}
        return Work(down, velocity, new_meter(facts, dtype_of(down)))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """ClientUpdate of Algorithm 1: w <- w - eta grad l(w; b)."""
        grads, loss = grad_and_value(batch_loss)(work.weights, network, batch)
        velocity = optim.momentum(work.velocity, grads, decay)
        weights = optim.sgd(work.weights, velocity if config.momentum else grads, lr)
        return Work(weights, velocity, work.meter.add(loss))

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        return Client(), work.weights, work.meter.info()

    fine_tuned = Visit(begin, (Phase(step),), lambda work: {"pm": work.weights})
    return Method(
        init=server.init,
        join=join,
        send=server.send,
        train=Visit(begin, (Phase(step),), end),
        merge=server.merge,
        adapt=fine_tuned,
        newcomer=fine_tuned,
        common=server.common,
        predict=server.predict,
    )
