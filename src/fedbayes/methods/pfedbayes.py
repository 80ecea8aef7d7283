r"""pFedBayes: every client keeps a Gaussian over weights, tied to a common one by a Kullback-Leibler term.

Paper: Zhang, Li, Li, Guo, Shao, "Personalized Federated Learning via Variational Bayesian Inference", ICML 2022,
Algorithm 1 and Eqs. (26)-(28).

Idea: a client maximises the likelihood of its data under its own mean-field Gaussian q_i, which may not stray far from
the server's Gaussian w; the server's Gaussian follows the clients' through a second, likelihood-free step at each
client, and what is averaged is that *localized global model*, not the personal one.

Notation: $v = (\mu, \rho)$ -> `Gaussian`; $q^i$ -> `Client.personal`; $v_w$ -> `Work.localized`; $\zeta$ -> `zeta`;
$\eta_1, \eta_2$ -> `lr_personal, lr_global`; $K$ -> `draws`; $\beta$ -> `server_step`.

Deviations: [P] is the text, [C] the public code AllenBeau/pFedBayes@2970ac9, whose log lands on the paper's numbers.
    1. Noise: [P] standard normal; [C] `sample_epsilons` draws with standard deviation 0.001 -> `noise_std`.
    2. Likelihood: [P] n/b times the batch's sum, Eq. (27); [C] the plain sum; BPFed's fork of [C] the batch's mean
       -> `likelihood`.
    3. KL weight: [P] zeta; [C] zeta / R with R = 20 batches a round, in both steps -> `kl_divisor`, `global_kl`.
       BPFed's fork exchanges the arguments in both steps, KL(w || q) -> `global_kl: exchanged`.
    4. Personal steps a batch: [P] 1; [C] 5 on the same batch with fresh noise -> `inner_steps`.
    5. Optimiser: [P] gradient descent in Algorithm 1; [C] Adam, one object a client for the whole run, so its moments
       outlive rounds and the overwriting of the localized global -> `optimiser`.
    6. Average: [P] equal weights over S uploads; [C] weights n_i / n -> `weighting`; in rho space in both. Sigma space
       and matched moments (Lemma A.2) are other readings -> `average`.
    7. Personal model at the start of a round: not said [P]; never overwritten [C] -> `personal_start`.
    8. The prior inside the personal objective: the localized global as it moves [C], or as broadcast -> `prior`.
    9. rho at the start: -2.5 [P section 5.2], -3 [C] -> `initial_rho`.
    10. Test: not said [P]; one noisy forward pass [C] -> `test_draws`. Probabilities are averaged over draws. The mean
       weights are evaluated beside them, as the models `pm-mean` and `gm-mean`.
    11. A newcomer [neither says]: its Gaussian begins at the server's and takes local visits.

Reduces to: with noise_std 0 and zeta 0, plain (Adam or gradient descent) local training of the means, rho unmoved; with
lr_personal 0 and a broadcast start, nobody moves.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from fedbayes.bayes.aggregation import aggregate
from fedbayes.bayes.flat import flatten, layout_of
from fedbayes.bayes.gaussian import (
    Gaussian,
    Spread,
    kl_gradient_first,
    kl_gradient_second,
    point,
)
from fedbayes.config import MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Cohort, Facts, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting, moved_towards, shares
from fedbayes.parts.drawn_weights import Moments, descend, drawn_probabilities, fresh_moments, likelihood_gradient


class Config(MethodConfig):
    """Fields of pFedBayes."""

    lr_personal: float = Field(ge=0, description="eta_1, step size of the personal model.")
    lr_global: float = Field(ge=0, description="eta_2, step size of the localized global model.")
    zeta: float = Field(ge=0, description="zeta, weight of the KL term; the theory asks for >= 1, Table 2 runs 0.5.")
    kl_divisor: float = Field(gt=0, description="The KL term's weight is zeta over this: 1 in the text, R in the code.")
    global_kl: Literal["plain", "weighted", "exchanged"] = Field(
        description="Weight of the second step's KL: 1, or as above; exchanged: as above, and KL(w || q) in both steps."
    )
    likelihood: Literal["dataset", "batch", "mean"] = Field(
        description="n/b times the batch's sum, or the sum itself, or the batch's mean."
    )
    noise_std: float = Field(ge=0, description="Standard deviation of the noise g in theta = mu + sigma g.")
    draws: PositiveInt = Field(description="K, weight samples a personal step averages over.")
    inner_steps: PositiveInt = Field(description="Personal steps on each batch before the localized global's one step.")
    optimiser: Literal["adam", "gd"] = Field(description="Of both models.")
    personal_start: Literal["persistent", "broadcast"] = Field(description="Personal model at the start of a round.")
    prior: Literal["moving", "round"] = Field(description="w in the personal objective: as it moves, or as broadcast.")
    average: Literal["rho", "sigma", "moments"] = Field(description="In which space the server averages.")
    weighting: Weighting = Field(description="Weights of the average: n_i / n, or 1 / S.")
    server_step: float = Field(gt=0, le=1, description="beta, share of the new average in the server's model.")
    initial_mu_std: float = Field(ge=0, description="Means start from N(0, this squared), biases too.")
    initial_rho: float = Field(description="rho at the start.")
    test_draws: PositiveInt = Field(description="Weight samples a prediction averages over.")


class Server(NamedTuple):
    """The common Gaussian w."""

    world: Gaussian


class Client(NamedTuple):
    """What a client keeps: its own Gaussian and the state of both optimisers."""

    personal: Gaussian
    personal_moments: Moments
    localized_moments: Moments


class Work(NamedTuple):
    """A visit in progress."""

    personal: Gaussian
    personal_moments: Moments
    localized: Gaussian
    localized_moments: Moments
    anchor: Tensor  # the mean of w as it was broadcast
    prior_sigma: Tensor  # of w as the personal objective sees it; kept because a softplus is dear
    size: Tensor  # n
    loss: Tensor  # sum over batches of the mean negative log-likelihood
    batches: Tensor


def build(config: Config, network: Network) -> Method:
    """The method pFedBayes for a network."""
    initial = network.init(torch.Generator().manual_seed(0))
    layout, dtype = layout_of(initial), flatten(initial).dtype
    lr_personal = torch.tensor(config.lr_personal, dtype=torch.float64)
    lr_global = torch.tensor(config.lr_global, dtype=torch.float64)
    kl_weight = torch.tensor(config.zeta / config.kl_divisor, dtype=torch.float64)
    exchanged = config.global_kl == "exchanged"
    global_weight = torch.ones((), dtype=torch.float64) if config.global_kl == "plain" else kl_weight

    def init(key: Key, population: int) -> Server:
        mu = config.initial_mu_std * torch.randn(layout.size, generator=rng.generator(key), dtype=dtype)
        return Server(Gaussian(mu, torch.full_like(mu, config.initial_rho)))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        fresh = fresh_moments(server.world)
        return Client(server.world, fresh, fresh)

    def send(server: Server, client: Tensor) -> Gaussian:
        return server.world

    def begin(down: Gaussian, client: Client, facts: Facts, key: Key) -> Work:
        personal = client.personal if config.personal_start == "persistent" else down
        zero = torch.zeros((), dtype=down.mu.dtype, device=down.mu.device)
        return Work(
            personal, client.personal_moments, down, client.localized_moments, down.mu, down.sigma,
            facts.size.to(down.mu.dtype), zero, zero,
        )  # fmt: skip

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """One batch: personal steps, then one step of the localized global model (Algorithm 1, ClientUpdate)."""
        personal, moments = work.personal, work.personal_moments
        prior = Spread(work.localized.mu if config.prior == "moving" else work.anchor, work.prior_sigma)
        samples = batch.mask.sum().clamp_min(1)
        scale = {"dataset": work.size, "batch": samples, "mean": torch.ones_like(samples)}[config.likelihood] / samples
        for inner in range(config.inner_steps):
            q = Spread(personal.mu, personal.sigma)
            weights, noise = rng.perturbed(rng.fold(key, inner), *q, config.draws, config.noise_std)
            likelihood, nll = likelihood_gradient(weights, config.noise_std * noise, network, layout, batch)
            pull = kl_gradient_second(prior, q) if exchanged else kl_gradient_first(q, prior)
            total = Spread(*(scale * g + kl_weight * k for g, k in zip(likelihood, pull, strict=True)))
            personal, moments = descend(personal, total, moments, lr_personal, config.optimiser)
        # Eq. (28): the localized global follows the personal model, which is held fixed.
        sigma = work.prior_sigma if config.prior == "moving" else work.localized.sigma
        q, w = Spread(personal.mu, personal.sigma), Spread(work.localized.mu, sigma)
        follow = kl_gradient_first(w, q) if exchanged else kl_gradient_second(q, w)
        pushed = Spread(*(global_weight * g for g in follow))
        localized, localized_moments = descend(
            work.localized, pushed, work.localized_moments, lr_global, config.optimiser
        )
        return work._replace(
            personal=personal, personal_moments=moments, localized=localized, localized_moments=localized_moments,
            prior_sigma=localized.sigma if config.prior == "moving" else work.prior_sigma,
            loss=work.loss + nll / samples, batches=work.batches + 1,
        )  # fmt: skip

    def end(work: Work) -> tuple[Client, Gaussian, dict[str, Tensor]]:
        client = Client(work.personal, work.personal_moments, work.localized_moments)
        return client, work.localized, {"loss": work.loss / work.batches.clamp_min(1)}

    def models(work: Work) -> dict[str, Gaussian]:
        """The personal model, and beside the sampled predictions those of the mean weights alone."""
        means = {"pm-mean": work.personal.mu, "gm-mean": work.anchor}
        return {"pm": work.personal} | {name: point(mu) for name, mu in means.items()}

    def merge(server: Server, up: Gaussian, cohort: Cohort, key: Key) -> Server:
        """Algorithm 1, server: v <- (1 - beta) v + beta mean_i v_i."""
        mean = aggregate(up, shares(cohort, config.weighting, up.mu.dtype), config.average)
        return moved_towards(server, Server(mean), config.server_step)

    def predict(model: Gaussian, x: Tensor, key: Key) -> Tensor:
        return drawn_probabilities(model, x, key, network, layout, config.test_draws, config.noise_std)

    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, (Phase(step),), end),
        merge=merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin, (Phase(step),), models),
        common=lambda server: server.world,
        predict=predict,
    )
