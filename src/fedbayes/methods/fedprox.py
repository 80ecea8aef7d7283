r"""FedProx: FedAvg whose clients are held back by a term that grows with the distance from the server's weights.

Paper: Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks", MLSys 2020,
arXiv:1812.06127, Eq. (2) and Algorithm 2.

Idea: $\min_w F_k(w) + \frac{\mu}{2} |w - w^t|^2$ limits how far local updates drift apart.

Notation: $w^t$ -> `Server.weights`, `Work.centre`; $\mu$ -> `mu`; $\eta$ -> `lr`.

Deviations:
    1. Local solver: SGD for the batches or epochs of the experiment; stragglers that stop early are not simulated.
    2. Average: Algorithm 2 samples clients by n_k and takes the plain mean; litian96/FedProx@d2a4501 samples uniformly
       and weights by n_k, as here -> `weighting`.
    3. Penalty: FedUAB's code (lpf111222/FedUAB@a8b7975) adds $\mu \sum_j |w_j - w_j^t|$ over tensors $j$, not squared;
       its gradient is a unit vector for each tensor and is taken as 0 where $w_j = w_j^t$ -> `penalty`.
    4. The personal model is the global one after one more local visit, for newcomers too, as FedUAB evaluates it.

Reduces to: FedAvg when mu = 0.
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
    """Fields of FedProx."""

    lr: float = Field(ge=0, description="eta, step size of local SGD.")
    mu: float = Field(ge=0, description="mu, weight of the penalty (pFedBayes calls it lambda).")
    penalty: Literal["squared", "norm"] = Field(
        description="squared: (mu / 2) |w - w^t|^2; norm: mu times the sum over tensors of |w_j - w_j^t|."
    )
    weighting: Weighting = Field(description="Weights of the mean: n_k / n, or 1 / S.")


class Client(NamedTuple):
    """A client keeps nothing between rounds."""


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    centre: Params  # w^t
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """FedProx for a network."""
    server = OneModel(network, config.weighting)
    lr, mu = (torch.tensor(value, dtype=torch.float64) for value in (config.lr, config.mu))
    pull = squared_pull if config.penalty == "squared" else norm_pull

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client()

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        return Work(down, down, new_meter(facts, dtype_of(down)))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """One SGD step on h_k(w; w^t) = F_k(w) + penalty, Eq. (2)."""
        grads, loss = grad_and_value(batch_loss)(work.weights, network, batch)
        pulled = {name: g + mu * pull(work.weights[name], work.centre[name]) for name, g in grads.items()}
        return Work(optim.sgd(work.weights, pulled, lr), work.centre, work.meter.add(loss))

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


def squared_pull(w: Tensor, centre: Tensor) -> Tensor:
    r"""Gradient of $\frac12 |w - w^t|^2$."""
    return w - centre


def norm_pull(w: Tensor, centre: Tensor) -> Tensor:
    r"""Gradient of $|w - w^t|$, 0 at $w = w^t$ where there is none."""
    gap = w - centre
    length = torch.linalg.vector_norm(gap)
    return gap / torch.where(length > 0, length, 1.0)
