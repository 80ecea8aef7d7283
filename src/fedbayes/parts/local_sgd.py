"""Clients that begin at the broadcast weights, descend by SGD and keep nothing: FedAvg's side of the clients."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.federation.contract import Batch, Facts, Key, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.parts.weights import Meter, batch_loss, dtype_of, new_meter
from fedbayes.tensors import Params


class Client(NamedTuple):
    """A client keeps nothing between rounds."""


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    velocity: Params  # empty without momentum
    meter: Meter


class LocalSgd:
    """The clients' side of a method, as functions of the contract.

    Args:
        network: what is trained.
        lr: step size.
        momentum: of SGD, restarted at every visit.
    """

    def __init__(self, network: Network, lr: float, momentum: float) -> None:
        # 0-dim tensors, not Python numbers: a compiled step then serves every learning rate.
        rate, decay = torch.tensor(lr, dtype=torch.float64), torch.tensor(momentum, dtype=torch.float64)

        def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
            velocity = {name: torch.zeros_like(w) for name, w in down.items()} if momentum else {}
            return Work(down, velocity, new_meter(facts, dtype_of(down)))

        def step(work: Work, batch: Batch, key: Key) -> Work:
            """ClientUpdate (McMahan et al. 2017, Algorithm 1): w <- w - eta grad l(w; b)."""
            grads, loss = grad_and_value(batch_loss)(work.weights, network, batch)
            velocity = optim.momentum(work.velocity, grads, decay)
            weights = optim.sgd(work.weights, velocity if momentum else grads, rate)
            return Work(weights, velocity, work.meter.add(loss))

        def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
            return Client(), work.weights, work.meter.info()

        self.train = Visit(begin, (Phase(step),), end)
        self.fine_tuned = Visit(begin, (Phase(step),), lambda work: {"pm": work.weights})

    @staticmethod
    def join(server: Any, facts: Facts, key: Key) -> Client:
        """Nothing to keep."""
        return Client()
