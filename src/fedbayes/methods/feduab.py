r"""FedUAB: Bayes by backprop at the clients with the global posterior as prior, a product of Gaussians at the server.

Paper: Li, Hu, Wang, "Federated learning meets Bayesian neural network: Robust and uncertainty-aware distributed
variational inference", Neural Networks 2025. FedUAB-Z has $Z$ draws in training and test.

Idea: clients minimise $L_E + \gamma\, KL(Q \| p)$ with the broadcast Gaussian as prior $p$; the server conflates their
Gaussians, so that certain clients count more, weight by weight; deeper layers begin with less variance.

Notation: $(\mu, \rho)$ -> `Posterior`; $Z$ -> `draws`; $\gamma^b$ -> `kl_weight`; $H$ -> `variance_reduction`;
$p_k$ -> `weighting`; Eq. (8) -> `aggregation: conflation`.

Deviations: [P] is the text, [C] the authors' code lpf111222/FedUAB@a8b7975; constants marked [C] are in no line of [P].
    1. Initial means are uniform in $\pm a_l$ by level of the network, biases 0.01 [C] -> `mean_bounds`, absent for the
       network's own initial weights; the initial variance of level $l$ is $\sigma_0^2 / H^{l-1}$ [P, C].
    2. Outputs are drawn, not weights (local reparameterisation), also in the test [C]; the noise is cut at +-10 [C]
       -> `noise_bound`. Draws of whole networks for predictions -> `prediction: weights`.
    3. A draw's mean cross-entropy is cut at 100, where its gradient vanishes [C] -> `loss_bound`.
    4. rho of the merged Gaussian is found without the loss of digits that log(exp(sigma) - 1) has in float32 [C].
    5. Ablations that [P] promises and does not show are fields: `aggregation`, `prior`, `variance_reduction`, `draws`.
    6. FedUAB's "pFedBayes" (preset `own-pfedbayes`) averages mu and rho and has H = 1: not the ICML method.
       Its "BPFed" (preset `own-bpfed`) keeps the last layer's Gaussian at the client, whose prior is what it was:
       not the method of BPFed's paper. [C] does not have it; the loss is FedUAB's.
    7. The personal model is the global one after one more local visit, for newcomers too [C].

Reduces to: FedAvg with noise_bound 0, kl_weight 0, the network's own initial weights and equal variances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.aggregation import Aggregation, aggregate
from fedbayes.bayes.gaussian import Gaussian, inverse_softplus, kl, softplus
from fedbayes.bayes.layers import plain, reparameterised
from fedbayes.config import MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Cohort, Facts, Key, Method, Phase, Visit
from fedbayes.models.network import Network, levels
from fedbayes.parts.average import Weighting, shares
from fedbayes.parts.draws import for_each_draw
from fedbayes.parts.sharing import Layers, part, sharing
from fedbayes.parts.weights import Meter, dtype_of, new_meter
from fedbayes.reading import ConfigError
from fedbayes.tensors import Layer, Params

BIAS_MEAN = 0.01  # [C]


class Config(MethodConfig):
    """Fields of FedUAB."""

    lr: float = Field(ge=0, description="Step size of SGD.")
    draws: PositiveInt = Field(description="Z, draws a step and a prediction average over.")
    kl_weight: float = Field(ge=0, description="gamma^b, weight of the KL term beside a batch's mean loss.")
    prior: Literal["global", "zero-mean"] = Field(
        description="What Q is held against: the broadcast, or N(0, sigma_0^2)."
    )
    initial_sigma: float = Field(gt=0, description="sigma_0, standard deviation of the first level at the start.")
    variance_reduction: float = Field(
        gt=0, description="H: each level begins with 1/H of the variance of the one before."
    )
    mean_bounds: tuple[float, ...] | None = Field(
        strict=False, description="a_l, bounds of the initial means by level; empty: the network's own initial weights."
    )
    noise_bound: float = Field(ge=0, description="Standard normal numbers are cut here; 0 for no noise at all.")
    loss_bound: float = Field(gt=0, description="A draw's mean loss is cut here.")
    aggregation: Aggregation = Field(description="How the server puts Gaussians together.")
    weighting: Weighting = Field(description="p_k: n_k / n, or 1 / K.")
    prediction: Literal["local", "weights"] = Field(
        description="Predictions draw outputs of layers, or whole networks."
    )
    shared: Layers = Field(description="Layers that travel; `all` but in FedUAB's own BPFed, whose head is private.")


class Posterior(NamedTuple):
    """A mean-field Gaussian over weights by name."""

    mu: Params
    rho: Params

    @property
    def sigma(self) -> Params:
        """Standard deviations."""
        return {name: softplus(rho) for name, rho in self.rho.items()}


class Server(NamedTuple):
    """The common Gaussian, and the one that private layers begin with."""

    world: Posterior
    private: Posterior


class Client(NamedTuple):
    """What a client keeps: the Gaussian of its private layers, empty where there are none."""

    own: Posterior


class Work(NamedTuple):
    """A visit in progress."""

    q: Posterior
    prior: Posterior
    sent: Posterior  # q at the start
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """FedUAB for a network."""
    names = tuple(network.init(torch.Generator().manual_seed(0)))
    roles = sharing(network, names, config.shared)
    lr, gamma = (torch.tensor(value, dtype=torch.float64) for value in (config.lr, config.kl_weight))

    def init(key: Key, population: int) -> Server:
        start = initial(config, network, rng.generator(key))
        return Server(_part(start, roles.shared), _part(start, roles.private))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client(server.private)

    def send(server: Server, client: Tensor) -> Posterior:
        return server.world

    def begin(down: Posterior, client: Client, facts: Facts, key: Key) -> Work:
        q = Posterior(*(part({**shared, **own}, names) for shared, own in zip(down, client.own, strict=True)))
        prior = q if config.prior == "global" else zero_mean(q, config.initial_sigma)
        return Work(q, prior, q, new_meter(facts, dtype_of(q.mu)))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """The client's loss: one SGD step on L_E + gamma KL(Q || p), L_E the mean over Z draws."""
        grads, loss = grad_and_value(free_energy, passes=config.draws)(work.q, work.prior, batch, key)
        moved = Posterior(*(optim.sgd(values, own, lr) for values, own in zip(work.q, grads, strict=True)))
        return work._replace(q=moved, meter=work.meter.add(loss))

    def free_energy(q: Posterior, prior: Posterior, batch: Batch, key: Key) -> Tensor:
        sigma = q.sigma

        def likelihood(stream: Key) -> Tensor:
            outputs = network.apply(drawn_outputs(q.mu, sigma, stream), batch.x)
            losses = network.loss(outputs, batch.y) * batch.mask
            return (losses.sum() / batch.mask.sum().clamp_min(1)).clamp_max(config.loss_bound)

        return mean_over(likelihood, rng.streams(key, config.draws)) + gamma * divergence(q, prior)

    def drawn_outputs(mu: Params, sigma: Params, stream: Key) -> Layer:
        return reparameterised(mu, sigma, lambda layer, like: noise(stream, network.layers.index(layer), like))

    def noise(stream: Key, place: int, like: Tensor) -> Tensor:
        numbers = rng.normal(rng.fold(stream, place), like.numel(), like.dtype).view(like.shape)
        return numbers.clamp(-config.noise_bound, config.noise_bound)

    def end(work: Work) -> tuple[Client, Posterior, dict[str, Tensor]]:
        # The client's own, and the one it was sent or began with: what the server made of the round before.
        report = {f"sigma/{layer}": mean for layer, mean in mean_sigma(work.q, network).items()}
        report |= {f"sigma-sent/{layer}": mean for layer, mean in mean_sigma(work.sent, network).items()}
        return Client(_part(work.q, roles.private)), _part(work.q, roles.shared), work.meter.info() | report

    def merge(server: Server, up: Posterior, cohort: Cohort, key: Key) -> Server:
        """Eq. (8), weight by weight, or one of its rivals."""
        weights = shares(cohort, config.weighting, dtype_of(up.mu))
        merged = {n: aggregate(Gaussian(up.mu[n], up.rho[n]), weights, config.aggregation) for n in up.mu}
        world = Posterior({n: g.mu for n, g in merged.items()}, {n: g.rho for n, g in merged.items()})
        return server._replace(world=world)

    def predict(q: Posterior, x: Tensor, key: Key) -> Tensor:
        """Softmax outputs of Z draws; the evaluation averages them."""
        sigma = q.sigma

        def forward(stream: Key) -> Tensor:
            if config.prediction == "local":
                layer = drawn_outputs(q.mu, sigma, stream)
            else:
                layer = plain({n: q.mu[n] + sigma[n] * noise(stream, i, q.mu[n]) for i, n in enumerate(names)})
            return F.softmax(network.apply(layer, x), dim=-1)

        streams = rng.streams(key, config.draws)
        if config.prediction == "local":
            return torch.vmap(forward)(streams)  # draws share their weights
        return for_each_draw(forward, streams, network)

    fine_tuned = Visit(begin, (Phase(step),), lambda work: {"pm": work.q})
    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, (Phase(step),), end),
        merge=merge,
        adapt=fine_tuned,
        newcomer=fine_tuned,
        common=None if roles.private else lambda server: server.world,
        predict=predict,
    )


def initial(config: Config, network: Network, stream: torch.Generator) -> Posterior:
    """The Gaussian everybody begins with."""
    weights = network.init(stream)
    level = levels(network)
    depth = 1 + max(level.values())
    if config.mean_bounds is not None:
        if len(config.mean_bounds) != depth:
            raise ConfigError(
                f"method feduab: mean_bounds: found {len(config.mean_bounds)} values; the network has {depth} levels: "
                f"{', '.join(network.layers)}"
            )
        for name, w in weights.items():
            bound = config.mean_bounds[level[name.rsplit(".", 1)[0]]]
            if name.endswith(".bias"):
                weights[name] = torch.full_like(w, BIAS_MEAN)
            else:
                weights[name] = torch.empty_like(w).uniform_(-bound, bound, generator=stream)
    rho = {}
    for name, w in weights.items():
        sigma = config.initial_sigma * config.variance_reduction ** (-level[name.rsplit(".", 1)[0]] / 2)
        rho[name] = inverse_softplus(torch.full_like(w, sigma))
    return Posterior(weights, rho)


def mean_over(function: Callable[[Key], Tensor], streams: Tensor) -> Tensor:
    """The mean of a function over draws; one draw needs no axis."""
    return function(streams[0]) if len(streams) == 1 else torch.vmap(function)(streams).mean(0)


def divergence(q: Posterior, p: Posterior) -> Tensor:
    """KL(q || p) summed over all weights."""
    flat = [kl(*(Gaussian(g.mu[n].flatten(), g.rho[n].flatten()) for g in (q, p))) for n in q.mu]
    return torch.stack(flat).sum()


def zero_mean(like: Posterior, sigma: float) -> Posterior:
    """N(0, sigma^2) for every weight."""
    mu = {name: torch.zeros_like(w) for name, w in like.mu.items()}
    return Posterior(mu, {name: inverse_softplus(torch.full_like(w, sigma)) for name, w in mu.items()})


def mean_sigma(q: Posterior, network: Network) -> dict[str, Tensor]:
    """Mean standard deviation of each layer's weights, biases left out."""
    return {layer: softplus(q.rho[f"{layer}.weight"]).mean() for layer in network.layers}


def _part(q: Posterior, names: tuple[str, ...]) -> Posterior:
    return Posterior(part(q.mu, names), part(q.rho, names))
