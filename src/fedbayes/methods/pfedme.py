r"""pFedMe: personal models are proximal points of the server's, which follows them through their Moreau envelopes.

Paper: Dinh, Tran, Nguyen, "Personalized Federated Learning with Moreau Envelopes", NeurIPS 2020, arXiv:2006.08848,
Algorithm 1.

Idea: $\min_w \frac1N \sum_i F_i(w)$ with $F_i(w) = \min_\theta f_i(\theta) + \frac{\lambda}{2} |\theta - w|^2$, whose
gradient is $\lambda (w - \hat\theta_i(w))$: personalisation and the common model are solved apart.

Notation: $\theta_i$ -> `Work.theta`; $w_i$ -> `Work.local`; $\lambda$ -> `lam`; $K$ -> `inner_steps`; $\eta$ -> `lr`;
the rate of the inner solver -> `lr_personal`; $\beta$ -> `server_step`.

Deviations: [C] is CharlieDinh/pFedMe@caf24b1.
    1. Inner problem: solved to accuracy nu in the text; K gradient steps on the same batch that go on from the last
       batch's theta in [C], which is what runs in both presets.
    2. [C] adds a weight decay of 0.001 to the inner gradient -> `inner_decay`.
    3. **Aliasing** in [C]: the stored personal model is the working model, which is overwritten by w_i at the end of
       training; what is reported as personalised is w_i, not theta_i (issue 5) -> `alias`.
    4. All clients train in every round and S upload (Algorithm 1, [C]): the experiment's `trains: all`.
    5. Average: 1 / S in the text, n_i / n in [C] -> `weighting`.
    6. A newcomer solves its proximal problem around the global model in a local visit.

Reduces to: the broadcast weights when lr = 0; w after one step is (1 - eta lambda) w + eta lambda theta.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from fedbayes.autodiff import grad_and_value
from fedbayes.config import MethodConfig
from fedbayes.federation.contract import Batch, Cohort, Facts, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting, moved_towards
from fedbayes.parts.one_model import OneModel, Server
from fedbayes.parts.weights import Meter, batch_loss, dtype_of, new_meter
from fedbayes.tensors import Params


class Config(MethodConfig):
    """Fields of pFedMe."""

    lr: float = Field(ge=0, description="eta, step size of the local copy of the global model.")
    lr_personal: float = Field(ge=0, description="Step size of the inner solver.")
    lam: float = Field(ge=0, description="lambda, weight of the proximal term.")
    inner_steps: PositiveInt = Field(description="K, steps of the inner solver on each batch.")
    inner_decay: float = Field(ge=0, description="Weight decay of the inner solver.")
    server_step: float = Field(gt=0, description="beta, share of the new average in the server's model.")
    weighting: Weighting = Field(description="Weights of the mean: n_i / n, or 1 / S.")
    alias: bool = Field(description="Test w_i in the place of theta_i, as the public code does.")


class Client(NamedTuple):
    """What a client keeps: the model that is tested."""

    personal: Params


class Work(NamedTuple):
    """A visit in progress."""

    theta: Params
    local: Params  # w_i
    personal: Params  # what would be tested if the visit ended now
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """The method pFedMe for a network."""
    server = OneModel(network, config.weighting)
    lr, rate, lam = (torch.tensor(v, dtype=torch.float64) for v in (config.lr, config.lr_personal, config.lam))
    decay = torch.tensor(config.inner_decay, dtype=torch.float64)

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client(server.weights)

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        return Work(down, down, client.personal, new_meter(facts, dtype_of(down)))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """Algorithm 1: K steps towards theta(w_i), then w_i <- w_i - eta lambda (w_i - theta)."""
        theta, first = work.theta, None
        for _ in range(config.inner_steps):
            grads, loss = grad_and_value(batch_loss)(theta, network, batch)
            first = loss if first is None else first
            theta = {
                n: t - rate * (grads[n] + lam * (t - work.local[n]) + decay * t) for n, t in theta.items()
            }  # one step on f(theta) + (lambda / 2) |theta - w_i|^2
        local = {n: w - lr * lam * (w - theta[n]) for n, w in work.local.items()}
        assert first is not None
        return Work(theta, local, local if config.alias else theta, work.meter.add(first))

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        return Client(work.personal), work.local, work.meter.info()

    def merge(old: Server, up: Params, cohort: Cohort, key: Key) -> Server:
        """Algorithm 1, server: w <- (1 - beta) w + beta mean_i w_i."""
        return moved_towards(old, server.merge(old, up, cohort, key), config.server_step)

    def models(work: Work) -> dict[str, Params]:
        return {"pm": work.personal}

    return Method(
        init=server.init,
        join=join,
        send=server.send,
        train=Visit(begin, (Phase(step),), end),
        merge=merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin, (Phase(step),), models),
        common=server.common,
        predict=server.predict,
    )
