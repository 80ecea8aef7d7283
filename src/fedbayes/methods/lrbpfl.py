r"""LR-BPFL: one deterministic network for all, and at each client a Bayesian mask of low rank that personalises it.

Paper: Zhang, Liu, Simeone, Wang, Pezaros, Zhu, "Personalizing Low-Rank Bayesian Neural Networks Via Federated
Learning", arXiv:2410.14390, 2024, Algorithm 1 and Eqs. (4)-(10).

Idea: client k multiplies each layer's shared weights entry by entry by $M_k = Q_k \Lambda_k R_k^T$. The factors are
Gaussian, so that a client is uncertain about few numbers only; the gates on the diagonal of $\Lambda_k$ are learnt, so
that each layer of each client finds its own rank. Masks never travel.

Notation: $W$ -> `Server.weights`; $q(Q; \phi), q(R; \psi)$ -> `Mask.factors`, all factors in one vector; $\gamma$,
$\lambda = sigmoid(\gamma)$ -> `Mask.gamma`, `gates`; $r_k$ -> `ranks`; $\bar\lambda$ -> `threshold`; $C$ -> `draws`.

Deviations: [P] is the text, [C] the first author's code Bernie0115/LR-BPFL@f86ac92, [D] ours where both are silent.
    1. Steps of W: Algorithm 1 writes one expression. `once`: one W step behind the mask steps, the literal reading
       [P, C]; `as-many`: a W step for each mask step, behind them; `interleaved`: W steps among the mask steps; `joint`
       is the paper's rival of coordinate descent, both in each step [P Table 6] -> `w_steps`.
    2. Algorithm 1 re-makes a client's factors at every visit and retains its gates; Figure 2 and the introduction
       retain both. [C] begins every visit at the factors of the first -> `masks`.
    3. Gates: sigmoid, with pruning for good below 0.95 but for the first [P]; hard-concrete without pruning, the first
       always open, put on the means of both factors and not between them [C] -> `gate`, `threshold`, `gate_on`.
    4. $r_k$ in the prior's mean $r_k^{-1/2}$: the sum of the gates, for which a mask's mean is 1; the number of ranks
       left; or $r_{max}$ [C] -> `prior_rank`. No gradient goes through it [D].
    5. Steps are on $F_k$ itself, n_k times a batch's mean loss and the KL [P]; or on $F_k / n_k$ [C] -> `scale`. The
       penalty 0.1 ||lambda||^2 stands beside either; whether its norm is squared is not said.
    6. Likelihood: the mean over draws of -log p [P]; -log of their mean [C] -> `likelihood`.
    7. KL(q || p) [P]; arguments exchanged [C] -> `kl`. [C] takes the mean from the stored factors, so that only the
       first step of a visit has a KL gradient in it -> `kl_mean`.
    8. Biases are not masked [D]; in [C] they are multiplied by the sum of the gates -> `bias`.
    9. Testing, a client adapts its mask to the broadcast W: as many mask steps as in training [D], or 40 smaller ones
       [C] -> `adapt_steps`, `adapt_lr`. Gates move along, and nothing is pruned. Newcomers do the same.
    10. Of the code's joint client little is known: `reference-joint` has the other one's fields [D], and no rate that
       falls by 0.99 a round.

Reduces to: FedAvg with equal weighting and scale `mean`, when masks are 1 and stay so (lr_mask, lr_gate, noise_std and
initial_mu_std 0, gate `none`), bias is `plain`, initial_weights `network`, momentum and weight_decay 0, and w_steps is
`joint`; or `as-many`, where every batch is all of a client's data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor
from torch.nn import functional as F

from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.flat import Layout, unflatten
from fedbayes.bayes.gaussian import Gaussian, inverse_softplus, kl, softplus
from fedbayes.bayes.layers import LowRank, masked
from fedbayes.config import MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Facts, Feed, Key, Method, Phase, Visit, drawn
from fedbayes.models.network import Network
from fedbayes.optim import OptimiserState, optimiser
from fedbayes.parts.average import Weighting
from fedbayes.parts.draws import for_each_draw
from fedbayes.parts.one_model import OneModel, Server
from fedbayes.parts.weights import Meter, dtype_of, new_meter
from fedbayes.tensors import Params


class Config(MethodConfig):
    """Fields of LR-BPFL."""

    lr: float = Field(ge=0, description="Step size of W.")
    momentum: float = Field(ge=0, lt=1, description="Momentum of W's steps.")
    weight_decay: float = Field(ge=0, description="L2 pull of W's steps.")
    optimiser_state: Literal["kept", "fresh"] = Field(description="Whether momentum outlives a visit.")
    lr_mask: float = Field(ge=0, description="Step size of the factors' means and rhos.")
    lr_gate: float = Field(ge=0, description="Step size of gamma.")
    w_steps: Literal["once", "as-many", "interleaved", "joint"] = Field(description="When W takes its steps.")
    mask_steps: PositiveInt | None = Field(
        description="Mask steps of a visit, or before each W step (`interleaved`, empty: 1); empty: as `local` says."
    )
    masks: Literal["remade", "first", "kept"] = Field(description="The factors a visit begins with.")
    rank: PositiveInt = Field(description="r_max, the largest rank of a mask.")
    gate: Literal["sigmoid", "hard-concrete", "none"] = Field(description="lambda by gamma; `none`: all are 1.")
    gate_on: Literal["product", "means"] = Field(description="Gates between the factors, or on the means of both.")
    gate_start: float = Field(description="gamma at the start.")
    penalty: float = Field(ge=0, description="Weight of ||lambda||^2.")
    threshold: float | None = Field(gt=0, lt=1, description="A rank below it is pruned for good; empty: none is.")
    prior_sigma: float = Field(gt=0, description="Standard deviation of the factors' prior.")
    prior_rank: Literal["gates", "left", "nominal"] = Field(description="r_k in the prior's mean.")
    initial_mu_std: float = Field(ge=0, description="Spread of the factors' first means around the prior's.")
    initial_rho: float = Field(description="Mean of the factors' first rhos.")
    initial_rho_std: float = Field(ge=0, description="Spread of the factors' first rhos.")
    scale: Literal["dataset", "mean"] = Field(description="Steps on F_k, or on F_k / n_k.")
    likelihood: Literal["expected", "mixture"] = Field(description="Mean of log-likelihoods, or log of the mean.")
    kl: Literal["forward", "reverse"] = Field(description="KL(q || p), or KL(p || q).")
    kl_mean: Literal["current", "stored"] = Field(description="Whose mean stands in the KL term.")
    kl_weight: float = Field(ge=0, description="Weight of the KL term in F_k.")
    bias: Literal["plain", "summed"] = Field(description="Biases as they are, or times the sum of the gates.")
    draws: PositiveInt = Field(description="C, masks drawn for a step and for a prediction.")
    noise_std: float = Field(ge=0, description="Spread of the noise in a draw.")
    initial_weights: Literal["network", "kaiming"] = Field(description="W at the start; `kaiming` has no biases.")
    adapt_steps: PositiveInt | None = Field(description="Mask steps before a test; empty: as in training.")
    adapt_lr: float = Field(ge=0, description="Step size of the factors before a test.")
    weighting: Weighting = Field(description="l_k: n_k / n, or 1 / S.")

    @model_validator(mode="after")
    def means_what_it_says(self) -> Config:
        """Fields that would do nothing are refused."""
        if self.w_steps == "joint" and self.mask_steps is not None:
            raise ValueError("mask_steps does nothing with `w_steps: joint`; leave it empty")
        if self.gate == "none" and (self.penalty or self.threshold is not None):
            raise ValueError("penalty and threshold do nothing with `gate: none`; leave them 0 and empty")
        return self


class Mask(NamedTuple):
    """What a mask step moves."""

    factors: Gaussian
    gamma: Tensor  # [layer, rank]


class Client(NamedTuple):
    """What a client keeps; factors are empty where every visit makes new ones."""

    factors: Gaussian
    gamma: Tensor
    alive: Tensor  # [layer, rank]: 0 where pruned
    optimiser: OptimiserState


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    optimiser: OptimiserState
    mask: Mask
    stored: Gaussian  # the factors it began with
    alive: Tensor
    size: Tensor  # n_k
    meter: Meter
    fit: Tensor  # sum of the batches' mean losses, without KL and penalty


class Model(NamedTuple):
    """What a personal prediction needs."""

    weights: Params
    factors: Gaussian
    gates: Tensor
    alive: Tensor


def build(config: Config, network: Network) -> Method:
    """LR-BPFL for a network."""
    example = network.init(torch.Generator().manual_seed(0))
    shapes = {layer: example[f"{layer}.weight"].shape for layer in network.layers}
    # Names of the two factors of each layer, each `[channel, rank]`, one after the other in the flat vector.
    layout = Layout(
        tuple(f"{layer}.{side}" for layer in shapes for side in ("left", "right")),
        tuple(torch.Size((channels, config.rank)) for shape in shapes.values() for channels in shape[:2]),
    )
    server = OneModel(network, config.weighting)
    descent = optimiser("sgd", config.lr, config.momentum, config.weight_decay, decays_biases=True)
    lr_mask, lr_gate, adapt_lr, kl_weight, penalty = (
        torch.tensor(v, dtype=torch.float64)
        for v in (config.lr_mask, config.lr_gate, config.adapt_lr, config.kl_weight, config.penalty)
    )

    def init(key: Key, population: int) -> Server:
        start = server.init(key, population)
        return start if config.initial_weights == "network" else Server(kaiming(start.weights, rng.fold(key, 1)))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        dtype, device = dtype_of(server.weights), facts.size.device
        gamma = torch.full((len(shapes), config.rank), config.gate_start, dtype=dtype, device=device)
        alive = torch.ones_like(gamma)
        factors = Gaussian(gamma.new_zeros(0), gamma.new_zeros(0))
        if config.masks != "remade":
            factors = first_factors(gates(gamma, alive), alive, key)
        return Client(factors, gamma, alive, descent.start(server.weights) if config.optimiser_state == "kept" else {})

    def first_factors(gate: Tensor, alive: Tensor, key: Key) -> Gaussian:
        """Means around the prior's, and small variances."""
        noise = rng.normal(key, 2 * layout.size, gate.dtype).view(2, -1)
        mu = spread(prior_means(gate, alive)) + config.initial_mu_std * noise[0]
        return Gaussian(mu, config.initial_rho + config.initial_rho_std * noise[1])

    def gates(gamma: Tensor, alive: Tensor) -> Tensor:
        """lambda, `[layer, rank]`."""
        if config.gate == "none":
            return alive
        # The logistic function by softplus: torch.sigmoid rounds differently at the end of a vector (see softplus).
        opened = torch.exp(-softplus(-gamma))
        if config.gate == "sigmoid":
            return opened * alive
        # Louizos et al. 2018 without its noise: sigmoid stretched to (-0.1, 1.1) and cut. The first rank is open [C].
        first = torch.arange(config.rank, device=gamma.device) == 0
        cut = (1.2 * opened - 0.1).clamp(0, 1)
        return torch.where(first, torch.ones_like(cut), cut) * alive

    def prior_means(gate: Tensor, alive: Tensor) -> Tensor:
        """1 / sqrt(r_k) for each layer and rank."""
        rank = {"gates": gate.detach(), "left": alive, "nominal": torch.ones_like(alive)}[config.prior_rank].sum(1)
        return rank.rsqrt()[:, None].expand_as(gate)

    def spread(values: Tensor) -> Tensor:
        """Values `[layer, rank]` for each entry of the flat vector of factors."""
        parts = [
            value.expand(channels, -1).flatten()
            for value, shape in zip(values, shapes.values(), strict=True)
            for channels in shape[:2]
        ]
        return torch.cat(parts)

    def divergence(mask: Mask, work: Work) -> Tensor:
        """KL of the factors from their prior; those of pruned ranks are put on the prior, where they count nothing."""
        alive = spread(work.alive) > 0
        mean = spread(prior_means(gates(mask.gamma, work.alive), work.alive))
        sigma = torch.full_like(mean, config.prior_sigma)
        prior = Gaussian(mean, inverse_softplus(sigma))
        mu = mask.factors.mu
        if config.kl_mean == "stored":
            mu = torch.where(work.meter.steps == 0, mu, work.stored.mu)
        own = Gaussian(torch.where(alive, mu, prior.mu), torch.where(alive, mask.factors.rho, prior.rho))
        return kl(own, prior) if config.kl == "forward" else kl(prior, own)

    def outputs(weights: Params, factors: Gaussian, gate: Tensor, alive: Tensor, x: Tensor, key: Key) -> Tensor:
        """Outputs `[draw, sample, class]` of networks with drawn masks."""
        mu, sigma = factors.mu, factors.sigma
        if config.gate_on == "means":
            mu = mu * spread(gate)
        if config.bias == "summed":
            weights = weights | {
                f"{layer}.bias": weights[f"{layer}.bias"] * own.sum()
                for layer, own in zip(shapes, gate, strict=True)
                if f"{layer}.bias" in weights
            }

        def forward(stream: Key) -> Tensor:
            noise = rng.normal(stream, layout.size, mu.dtype)
            parts = unflatten(mu + config.noise_std * sigma * noise, layout)
            masks = {}
            # Gates on the means leave the noise of a pruned rank, which must go as well.
            between = gate if config.gate_on == "product" else alive
            for layer, own in zip(shapes, between, strict=True):
                masks[layer] = LowRank(parts[f"{layer}.left"] * own, parts[f"{layer}.right"])
            return network.apply(masked(weights, masks), x)

        return for_each_draw(forward, rng.streams(key, config.draws), network)

    def free_energy(weights: Params, mask: Mask, work: Work, batch: Batch, key: Key) -> tuple[Tensor, Tensor]:
        """F_k on a batch (Eqs. 4-6), or F_k / n_k, with the penalty on the gates; and the batch's mean loss."""
        gate = gates(mask.gamma, work.alive)
        drawn_outputs = outputs(weights, mask.factors, gate, work.alive, batch.x, key)
        losses = torch.stack([network.loss(own, batch.y) for own in drawn_outputs])
        if config.likelihood == "mixture":
            losses = math.log(config.draws) - torch.logsumexp(-losses, 0)
        else:
            losses = losses.mean(0)
        fit = (losses * batch.mask).sum() / batch.mask.sum().clamp_min(1)
        each = fit + kl_weight * divergence(mask, work) / work.size
        total = each * work.size if config.scale == "dataset" else each
        return total + penalty * gate.square().sum(), fit

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        factors = client.factors
        if config.masks == "remade":
            factors = first_factors(gates(client.gamma, client.alive), client.alive, key)
        state = client.optimiser if config.optimiser_state == "kept" else descent.start(down)
        meter = new_meter(facts, dtype_of(down))
        nothing = torch.zeros_like(meter.loss)
        return Work(down, state, Mask(factors, client.gamma), factors, client.alive, facts.size, meter, nothing)

    def noted(work: Work, losses: tuple[Tensor, Tensor]) -> Work:
        """The step's losses: the KL is so much the larger part that the data's is reported by itself, too."""
        return work._replace(meter=work.meter.add(losses[0]), fit=work.fit + losses[1])

    def moved(mask: Mask, grads: Mask, rate: Tensor) -> Mask:
        factors = Gaussian(*(v - rate * g for v, g in zip(mask.factors, grads.factors, strict=True)))
        return Mask(factors, mask.gamma - lr_gate * grads.gamma)

    def mask_step(rate: Tensor) -> Callable[[Work, Batch, Key], Work]:
        """phi, psi, gamma <- ... - eta grad F_k with W fixed (Algorithm 1)."""

        def step(work: Work, batch: Batch, key: Key) -> Work:
            def energy(mask: Mask) -> tuple[Tensor, Tensor]:
                return free_energy(work.weights, mask, work, batch, key)

            grads, losses = gradient(energy)(work.mask)
            return noted(work, losses)._replace(mask=moved(work.mask, grads, rate))

        return step

    def w_step(work: Work, batch: Batch, key: Key) -> Work:
        """W <- W - eta grad_W F_k with the mask fixed (Algorithm 1)."""

        def energy(weights: Params) -> tuple[Tensor, Tensor]:
            return free_energy(weights, work.mask, work, batch, key)

        grads, losses = gradient(energy)(work.weights)
        weights, state = descent.step(work.weights, grads, work.optimiser)
        return noted(work, losses)._replace(weights=weights, optimiser=state)

    def joint_step(work: Work, batch: Batch, key: Key) -> Work:
        """Both at once (Table 6)."""

        def energy(both: tuple[Params, Mask]) -> tuple[Tensor, Tensor]:
            return free_energy(*both, work, batch, key)

        (grads, turn), losses = gradient(energy)((work.weights, work.mask))
        weights, state = descent.step(work.weights, grads, work.optimiser)
        mask = moved(work.mask, turn, lr_mask)
        return noted(work, losses)._replace(weights=weights, optimiser=state, mask=mask)

    def gradient(energy: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Any, Any]]:
        return grad_and_value(energy, passes=config.draws, has_aux=True)

    def interleaved_step(work: Work, batch: Batch, key: Key) -> Work:
        """Some mask steps and a W step, each on a batch of its own."""
        for number in range(within):
            work = mask_step(lr_mask)(work, drawn(batch, number), rng.fold(key, number))
        return w_step(work, drawn(batch, within), rng.fold(key, within))

    within = config.mask_steps or 1

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        alive = work.alive if config.threshold is None else pruned(work, config.threshold)
        empty = Gaussian(*(part[:0] for part in work.stored))
        factors = {"remade": empty, "first": work.stored, "kept": work.mask.factors}[config.masks]
        state = work.optimiser if config.optimiser_state == "kept" else {}
        client = Client(factors, work.mask.gamma, alive, state)
        fit = work.fit / work.meter.steps.clamp_min(1)
        return client, work.weights, work.meter.info() | {"fit": fit} | ranks(alive)

    def pruned(work: Work, threshold: float) -> Tensor:
        """A rank whose gate is below the threshold is gone for good; the first one stays (Algorithm 1)."""
        stays = gates(work.mask.gamma, work.alive) >= threshold
        first = torch.arange(config.rank, device=stays.device) == 0
        return work.alive * (stays | first)

    def ranks(alive: Tensor) -> dict[str, Tensor]:
        return {f"rank/{layer}": left for layer, left in zip(shapes, alive.sum(1), strict=True)}

    def predict(model: Model, x: Tensor, key: Key) -> Tensor:
        """Softmax outputs of C drawn masks; the evaluation averages them."""
        return F.softmax(outputs(*model, x, key), dim=-1)

    some = _some(config.mask_steps)
    phases = {
        "once": (Phase(mask_step(lr_mask), some), Phase(w_step, _some(1))),
        "as-many": (Phase(mask_step(lr_mask), some), Phase(w_step, some)),
        "interleaved": (Phase(interleaved_step, lambda feed: feed._replace(draws=within + 1)),),
        "joint": (Phase(joint_step),),
    }[config.w_steps]
    as_in_training = (
        (lambda feed: feed._replace(amount=within * feed.amount)) if config.w_steps == "interleaved" else some
    )

    def models(work: Work) -> dict[str, Model]:
        return {"pm": Model(work.weights, work.mask.factors, gates(work.mask.gamma, work.alive), work.alive)}

    steps = as_in_training if config.adapt_steps is None else _some(config.adapt_steps)
    adapted = Visit(begin, (Phase(mask_step(adapt_lr), steps),), models)
    return Method(
        init=init,
        join=join,
        send=server.send,
        train=Visit(begin, phases, end),
        merge=server.merge,
        adapt=adapted,
        newcomer=adapted,
        common=None,
        predict=predict,
        traits=lambda client: ranks(client.alive),
        freezes_shared=True,
    )


def kaiming(weights: Params, key: Key) -> Params:
    """He et al. 2015: normal weights of variance 2 / fan-in, biases 0 [C]."""
    stream = rng.generator(key)
    found = {}
    for name, w in weights.items():
        if name.endswith(".bias"):
            found[name] = torch.zeros_like(w)
        else:
            fan_in = math.prod(w.shape[1:])
            found[name] = torch.empty_like(w).normal_(std=math.sqrt(2 / fan_in), generator=stream)
    return found


def _some(batches: int | None) -> Callable[[Feed], Feed] | None:
    """A feed of so many batches; None leaves the experiment's."""
    return None if batches is None else lambda feed: feed._replace(amount=batches, unit="batches")
