r"""FedAvg: local SGD from the server's weights, then a weighted mean.

Paper: McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, arXiv:1602.05629, Algorithm 1.

Idea: clients take several SGD steps on their own data before anything is averaged, which saves rounds.

Notation: $w^t$ -> `Server.weights`; $\eta$ -> `lr`; $n_k / n$ -> `weighting: samples`.

Deviations:
    1. A round is a number of batches or of epochs as the experiment's `local` says; Algorithm 1 has epochs, the code
       base of the personalised papers (CharlieDinh/pFedMe) runs batches from an unshuffled cyclic loader.
    2. The personal model is the global one after one more local visit (fine-tuning on the client's training data).
       Algorithm 1 has no personal model; FedUAB evaluates FedAvg so.

Reduces to: plain SGD when there is one client; the broadcast weights when lr = 0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.layers import plain
from fedbayes.config import MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Cohort, Facts, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.tensors import Params


class Config(MethodConfig):
    """Fields of FedAvg."""

    lr: float = Field(ge=0, description="eta, step size of local SGD.")
    momentum: float = Field(ge=0, lt=1, description="Momentum of local SGD, restarted at every visit; 0 in the paper.")
    weighting: Literal["samples", "uniform"] = Field(description="Weights of the mean: n_k / n, or 1 / S.")


class Server(NamedTuple):
    """The global weights."""

    weights: Params


class Client(NamedTuple):
    """A client keeps nothing between rounds."""


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    velocity: Params  # empty without momentum
    loss: Tensor  # sum of the losses of the steps so far
    steps: Tensor


def build(config: Config, network: Network) -> Method:
    """FedAvg for a network."""
    # 0-dim tensors, not Python numbers: a compiled step then serves every learning rate.
    lr, decay = torch.tensor(config.lr, dtype=torch.float64), torch.tensor(config.momentum, dtype=torch.float64)

    def init(key: Key, population: int) -> Server:
        return Server(network.init(rng.generator(key)))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client()

    def send(server: Server, client: Tensor) -> Params:
        return server.weights

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        velocity = {name: torch.zeros_like(w) for name, w in down.items()} if config.momentum else {}
        zero = torch.zeros((), dtype=next(iter(down.values())).dtype, device=facts.size.device)
        return Work(down, velocity, zero, torch.zeros_like(facts.size))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """ClientUpdate of Algorithm 1: w <- w - eta grad l(w; b)."""
        grads, loss = grad_and_value(mean_loss)(work.weights, network, batch)
        velocity = optim.momentum(work.velocity, grads, decay)
        weights = optim.sgd(work.weights, velocity if config.momentum else grads, lr)
        return Work(weights, velocity, work.loss + loss, work.steps + 1)

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        return Client(), work.weights, {"loss": work.loss / work.steps.clamp_min(1)}

    def merge(server: Server, up: Params, cohort: Cohort, key: Key) -> Server:
        """Algorithm 1, last line: w^{t+1} = sum_k (n_k / n) w_k."""
        return Server(weighted_mean(up, cohort.sizes if config.weighting == "samples" else None))

    def predict(weights: Params, x: Tensor, key: Key) -> Tensor:
        return F.softmax(network.apply(plain(weights), x), dim=-1).unsqueeze(0)

    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, (Phase(step),), end),
        merge=merge,
        adapt=Visit(begin, (Phase(step),), lambda work: {"pm": work.weights}),
        common=lambda server: server.weights,
        predict=predict,
    )


def mean_loss(weights: Params, network: Network, batch: Batch) -> Tensor:
    """Mean cross-entropy over the real samples of a batch."""
    losses = F.cross_entropy(network.apply(plain(weights), batch.x), batch.y, reduction="none")
    return (losses * batch.mask).sum() / batch.mask.sum().clamp_min(1)


def weighted_mean(stacked: Params, sizes: Tensor | None) -> Params:
    """Mean over the first axis, weighted by `sizes` where given."""
    if sizes is None:
        return {name: w.mean(0) for name, w in stacked.items()}
    return {name: torch.tensordot(sizes.to(w.dtype) / sizes.sum(), w, dims=1) for name, w in stacked.items()}
