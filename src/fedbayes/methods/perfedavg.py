r"""Per-FedAvg: a global model that is good after one gradient step on a client's own data.

Paper: Fallah, Mokhtari, Ozdaglar, "Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
Meta-Learning Approach", NeurIPS 2020, arXiv:2002.07948, Algorithm 1 and its approximations FO and HF.

Idea: $\min_w \frac1N \sum_i F_i(w - \alpha \nabla F_i(w))$: what is averaged is an initialisation, not a model.

Notation: $\alpha$ -> `alpha`; $\beta$ -> `beta`; $\delta$ -> `delta`; $D, D', D''$ -> the draws of a batch.

Deviations: [C] is CharlieDinh/pFedMe@caf24b1, the code base that the personalised papers compare with.
    1. [C] has the first-order variant only -> `order: fo`; the Hessian-free one is the paper's -> `order: hf`.
    2. Test: one step of size alpha from the broadcast (paper, section 5); [C] two, of sizes alpha and beta
       -> `adaptation`.
    3. [C] takes its adaptation batches from the *test* set (since its commit ed8e909; issue 19): a leak that BPFed and
       probably pFedBayes inherited. Only with `adapt_on: test`, and every table marks such a number. It is the preset
       `leak`; `reference` adapts on training batches.
    4. A step takes two batches (FO) or three (HF), one after the other from the experiment's feed [C].

Reduces to: FedAvg with step size beta when alpha = 0 (each step on its second batch).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.config import MethodConfig
from fedbayes.federation.contract import Batch, Facts, Feed, Key, Method, Phase, Visit, drawn
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting
from fedbayes.parts.one_model import OneModel, Server
from fedbayes.parts.weights import Meter, batch_loss, dtype_of, new_meter
from fedbayes.tensors import Params


class Config(MethodConfig):
    """Fields of Per-FedAvg."""

    alpha: float = Field(ge=0, description="alpha, size of the inner step and of the adaptation.")
    beta: float = Field(ge=0, description="beta, size of the outer step.")
    order: Literal["fo", "hf"] = Field(description="First-order, or Hessian-free by a difference of two gradients.")
    delta: float = Field(gt=0, description="delta, how far apart those two are.")
    adaptation: Literal["alpha", "alpha-beta"] = Field(description="Adaptation steps: one, or one more of size beta.")
    adapt_on: Literal["train", "test"] = Field(
        description="Whose batches the model is adapted on before it is tested.",
        json_schema_extra={"marks": {"test": "adapted on test data"}},
    )
    weighting: Weighting = Field(description="Weights of the mean: n_i / n, or 1 / S.")


class Client(NamedTuple):
    """A client keeps nothing between rounds."""


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """Per-FedAvg for a network."""
    server = OneModel(network, config.weighting)
    alpha, beta, delta = (torch.tensor(v, dtype=torch.float64) for v in (config.alpha, config.beta, config.delta))
    draws = 2 if config.order == "fo" else 3

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client()

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        return Work(down, new_meter(facts, dtype_of(down)))

    def gradient(weights: Params, batch: Batch) -> tuple[Params, Tensor]:
        found: tuple[Params, Tensor] = grad_and_value(batch_loss)(weights, network, batch)
        return found

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """Algorithm 1: w' = w - alpha g(w; D); w <- w - beta (I - alpha H(w; D'')) g(w'; D')."""
        inner, second = drawn(batch, 0), drawn(batch, 1)
        first, _ = gradient(work.weights, inner)
        outer, loss = gradient(optim.sgd(work.weights, first, alpha), second)
        if config.order == "hf":
            outer = optim.sgd(outer, hessian_times(work.weights, outer, drawn(batch, 2)), alpha)
        return Work(optim.sgd(work.weights, outer, beta), work.meter.add(loss))

    def hessian_times(weights: Params, direction: Params, batch: Batch) -> Params:
        r"""$\nabla^2 F(w) g \approx [\nabla F(w + \delta g) - \nabla F(w - \delta g)] / 2\delta$."""
        ahead, behind = (gradient(optim.sgd(weights, direction, side * delta), batch)[0] for side in (-1, 1))
        return {name: (ahead[name] - behind[name]) / (2 * delta) for name in weights}

    def adapted(rate: Tensor) -> Phase:
        def one(work: Work, batch: Batch, key: Key) -> Work:
            grads, loss = gradient(work.weights, batch)
            return Work(optim.sgd(work.weights, grads, rate), work.meter.add(loss))

        def feed(experiment: Feed) -> Feed:
            return experiment._replace(amount=1, unit="batches", split=config.adapt_on)

        return Phase(one, feed)

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        return Client(), work.weights, work.meter.info()

    rates = (alpha,) if config.adaptation == "alpha" else (alpha, beta)
    after_steps = Visit(begin, tuple(map(adapted, rates)), lambda work: {"pm": work.weights})
    return Method(
        init=server.init,
        join=join,
        send=server.send,
        train=Visit(begin, (Phase(step, lambda feed: feed._replace(draws=draws)),), end),
        merge=server.merge,
        adapt=after_steps,
        newcomer=after_steps,
        common=server.common,
        predict=server.predict,
    )
