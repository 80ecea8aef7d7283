r"""BPFed: the body of a Bayesian network is shared, its head is the client's own, and each posterior is the next prior.

Paper: Chen, Liu, Cao, Zhang, "Bayesian Personalized Federated Learning with Shared and Personalized Uncertainty
Representations", arXiv:2309.15499, 2023, Algorithm 1 and Eqs. (8)-(11).

Idea: uncertainty is split as the network is: a Gaussian over the shared weights, averaged by the server, and one over
the head, kept by the client. The prior of a round is what both were at its start (*continual prior*), so that nothing
has to be tempered by hand.

Notation: $q(\phi, \theta)$ -> `Work.q`; $\eta_i$ -> `Client.head`; $\zeta$ -> `Server.body`; $\pi$ -> `Work.prior`;
$(\bar\eta, \bar\zeta)$ -> `Work.bar`, the pre-aggregation copy that is uploaded; $M$ -> `draws`.

Deviations: [P] is the text, [C] the second author's code hyLiu1994/BPFedMePD@7b32ff7.
    1. Which argument of Eq. (11)'s KL the copy fills is not said. As first argument, begun at the prior, its gradient
       is 0 and nothing is ever learnt. Two readings work -> `reading`: `localized`, as in pFedBayes: the copy is the
       second argument and follows q; `alternating`, literally: one model takes a step on (10), then one on (11) with
       the prior of the round, and is the copy itself.
    2. Prior inside (10): what was at the start of the round [P], the copy as it moves [C], or N(0, initial_mu_std^2)
       for ever, the ablation of the continual prior -> `prior`.
    3. KL(q || p) [P]; its arguments exchanged in both steps [C] -> `kl`.
    4. Likelihood: n/b times the batch's sum and KL weight 1 [P]; the batch's mean and 1e-3 / 20 [C] -> `likelihood`,
       `kl_weight`.
    5. Noise: standard normal [P]; standard deviation 0.001 [C] -> `noise_std`.
    6. q begins a round at (own head, broadcast body) [P]; it is never overwritten, not even its body [C]
       -> `personal_start`. Tested right after the broadcast is q, or its mean weights, or the copy with the broadcast
       body, which [C] calls global -> `predictor`. The others are evaluated beside it, as `pm-drawn`, `pm-mean` and
       `pm-localized`.
    7. Steps of q a batch: 1 [P], 5 [C] -> `inner_steps`. Adam in both; its moments live as long as the client [C], or a
       round (not said in [P]) -> `optimiser_state`.
    8. The server averages mu and sigma with 1 / S [P], mu and rho with n_i / n [C] -> `average`, `weighting`. [C]
       averages heads as well, and sends none: here they stay.
    9. Both parts move in every step, as in FedPer [P, C]. The text says that taking turns, as FedRep does, is no better
       and shows no numbers: `turns: head-then-body` takes all batches of a visit for the head on the still body, then
       as many for the body under that head, each with its copy. Adam's correction of bias counts both turns.
    10. A newcomer trains its head's Gaussian on the frozen body (Figs. 7-9).

Reduces to: FedPer with the same optimiser and weighting when noise_std and kl_weight are 0, inner_steps is 1, the
likelihood is the mean, the reading `alternating`, and q begins at the broadcast; to FedRep with as many epochs of the
head as of the body when turns are taken besides.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from fedbayes.bayes.aggregation import Aggregation, aggregate
from fedbayes.bayes.flat import flatten, layout_of
from fedbayes.bayes.gaussian import Gaussian, Spread, kl_gradient_first, kl_gradient_second, point
from fedbayes.config import LATER, MethodConfig
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Batch, Cohort, Facts, Key, Method, Phase, Visit
from fedbayes.federation.placing import on_device
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting, shares
from fedbayes.parts.drawn_weights import Moments, descend, drawn_probabilities, fresh_moments, likelihood_gradient
from fedbayes.parts.sharing import Layers, sharing
from fedbayes.parts.weights import Meter, new_meter


class Config(MethodConfig):
    """Fields of BPFed."""

    lr: float = Field(ge=0, description="Step size of q.")
    lr_copy: float = Field(ge=0, description="Step size of the pre-aggregation copy.")
    optimiser: Literal["adam", "gd"] = Field(description="Of both.")
    optimiser_state: Literal["fresh", "kept"] = Field(description="Adam's moments: new at every visit, or kept.")
    reading: Literal["localized", "alternating"] = Field(description="What the copy of Eq. (11) is.")
    prior: Literal["round", "moving", "fixed"] = Field(
        description="As the round began; the copy as it moves (`localized` alone); N(0, initial_mu_std^2)."
    )
    kl: Literal["forward", "reverse"] = Field(description="KL(q || p), or its arguments exchanged.")
    kl_weight: float = Field(ge=0, description="Of the KL terms; none in the paper, which is 1.")
    likelihood: Literal["dataset", "mean"] = Field(description="n/b times the batch's sum, or the batch's mean.")
    noise_std: float = Field(ge=0, description="Standard deviation of the noise.")
    draws: PositiveInt = Field(description="M, weight samples a step averages over.")
    inner_steps: PositiveInt = Field(description="Steps of q on each batch before the copy's one.")
    personal_start: Literal["broadcast", "persistent"] = Field(description="q at the start of a round.")
    average: Aggregation = Field(description="How the server puts the shared Gaussians together.")
    weighting: Weighting = Field(description="Weights of the average: n_i / n, or 1 / S.")
    shared: Layers = Field(description="The shared layers; the paper's is the body.")
    initial_mu_std: float = Field(gt=0, description="Means start from N(0, this squared).")
    initial_rho: float = Field(description="Mean of rho at the start.")
    initial_rho_std: float = Field(ge=0, description="Its standard deviation.")
    test_draws: PositiveInt = Field(description="Weight samples a prediction averages over.")
    predictor: Literal["drawn", "mean", "localized"] = Field(
        description="The personal model: draws of q, its mean weights, or the copy."
    )
    turns: Literal["together", "head-then-body"] = Field(
        "together",
        json_schema_extra=LATER,
        description="Whether head and body move in one step, or one after the other.",
    )

    @model_validator(mode="after")
    def means_what_it_says(self) -> Config:
        """A copy that is no other model cannot be a prior that moves beside it."""
        if self.prior == "moving" and self.reading == "alternating":
            raise ValueError("`prior: moving` needs a copy that moves by itself, `reading: localized`")
        return self


class Server(NamedTuple):
    """The shared Gaussian, and the one that heads begin with."""

    body: Gaussian
    head: Gaussian


class Client(NamedTuple):
    """What a client keeps; empty tuples stand for what its settings do not need."""

    head: Gaussian
    personal: Gaussian | tuple[()]
    moments: tuple[Moments, Moments] | tuple[()]


class Work(NamedTuple):
    """A visit in progress."""

    q: Gaussian
    q_moments: Moments
    bar: Gaussian
    bar_moments: Moments
    prior: Gaussian
    size: Tensor  # n
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """BPFed for a network."""
    start = network.init(torch.Generator().manual_seed(0))
    layout, dtype = layout_of(start), flatten(start).dtype
    body, head = _places(network, config.shared)
    order = torch.argsort(torch.cat([body, head]))
    lr, lr_copy, kl_weight = (
        torch.tensor(value, dtype=torch.float64) for value in (config.lr, config.lr_copy, config.kl_weight)
    )

    def init(key: Key, population: int) -> Server:
        stream = rng.generator(key)
        mu, rho = (torch.randn(layout.size, generator=stream, dtype=dtype) for _ in range(2))
        whole = Gaussian(config.initial_mu_std * mu, config.initial_rho + config.initial_rho_std * rho)
        return Server(_taken(whole, body), _taken(whole, head))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        whole = joined(server.body, server.head)
        fresh = fresh_moments(whole)
        return Client(
            server.head,
            whole if config.personal_start == "persistent" else (),
            (fresh, fresh) if config.optimiser_state == "kept" else (),
        )

    def joined(shared: Gaussian, own: Gaussian) -> Gaussian:
        places = order.to(shared.mu.device)
        return Gaussian(*(torch.cat(parts)[places] for parts in zip(shared, own, strict=True)))

    def send(server: Server, client: Tensor) -> Gaussian:
        return server.body

    def begin(down: Gaussian, client: Client, facts: Facts, key: Key) -> Work:
        bar = joined(down, client.head)
        q = client.personal if isinstance(client.personal, Gaussian) else bar
        moments = client.moments or (fresh_moments(bar), fresh_moments(bar))
        return Work(q, moments[0], bar, moments[1], bar, facts.size.to(dtype), new_meter(facts, dtype))

    def descended(
        at: Gaussian, grad: Spread, moments: Moments, rate: Tensor, mask: Tensor | None
    ) -> tuple[Gaussian, Moments]:
        """A step of all places, or of those that move: the others, and their moments, stay as they are."""
        new = descend(at, grad, moments, rate, config.optimiser)
        if mask is None:
            return new
        # Numbers that are no vector are Adam's corrections of bias: they count steps.
        return trees.each(lambda n, o: torch.where(mask > 0, n, o) if n.dim() else n, new, (at, moments))

    def steps(moving: Tensor) -> Phase:
        """A phase in which some places of the vectors move."""
        moves, partial = on_device(moving), not bool(moving.all())

        def step(work: Work, batch: Batch, key: Key) -> Work:
            """One batch: steps of q on Eq. (10), then one of the copy on Eq. (11)."""
            (mask,) = moves(batch.x.device) if partial else (None,)
            q, moments = work.q, work.q_moments
            samples = batch.mask.sum().clamp_min(1)
            scale = (work.size if config.likelihood == "dataset" else torch.ones_like(samples)) / samples
            prior = prior_of(work)
            for inner in range(config.inner_steps):
                at = Spread(q.mu, q.sigma)
                weights, noise = rng.perturbed(rng.fold(key, inner), *at, config.draws, config.noise_std)
                slope, nll = likelihood_gradient(weights, config.noise_std * noise, network, layout, batch)
                pull = pulled(at, prior)
                total = Spread(*(scale * g + kl_weight * k for g, k in zip(slope, pull, strict=True)))
                q, moments = descended(q, total, moments, lr, mask)
            work = work._replace(q=q, q_moments=moments, meter=work.meter.add(nll / samples))
            return follow(work, prior, mask)

        return Phase(step)

    def prior_of(work: Work) -> Spread:
        if config.prior == "fixed":
            return Spread(torch.zeros_like(work.q.mu), torch.full_like(work.q.mu, config.initial_mu_std))
        gaussian = work.bar if config.prior == "moving" else work.prior
        return Spread(gaussian.mu, gaussian.sigma)

    def pulled(q: Spread, p: Spread) -> Spread:
        """Gradient in q of KL(q || p), or of KL(p || q)."""
        return kl_gradient_first(q, p) if config.kl == "forward" else kl_gradient_second(p, q)

    def follow(work: Work, prior: Spread, mask: Tensor | None) -> Work:
        """The copy's step: towards q, or of the one model towards the prior."""
        q, bar = (Spread(g.mu, g.sigma) for g in (work.q, work.bar))
        if config.reading == "alternating":
            at, slope = work.q, pulled(q, prior)
        else:
            at = work.bar
            slope = kl_gradient_second(q, bar) if config.kl == "forward" else kl_gradient_first(bar, q)
        push = Spread(*(kl_weight * g for g in slope))
        moved, moments = descended(at, push, work.bar_moments, lr_copy, mask)
        changed = work._replace(bar=moved, bar_moments=moments)
        return changed._replace(q=moved) if config.reading == "alternating" else changed

    def end(work: Work) -> tuple[Client, Gaussian, dict[str, Tensor]]:
        client = Client(
            _taken(work.bar, head),
            work.q if config.personal_start == "persistent" else (),
            (work.q_moments, work.bar_moments) if config.optimiser_state == "kept" else (),
        )
        return client, _taken(work.bar, body), work.meter.info()

    def merge(server: Server, up: Gaussian, cohort: Cohort, key: Key) -> Server:
        """zeta^{t+1} = mean_i zeta_i^{t+1}, Algorithm 1."""
        return server._replace(body=aggregate(up, shares(cohort, config.weighting, up.mu.dtype), config.average))

    def models(work: Work) -> dict[str, Gaussian]:
        found = {"drawn": work.q, "mean": point(work.q.mu), "localized": work.bar}
        others = {f"pm-{name}": model for name, model in found.items() if name != config.predictor}
        return {"pm": found[config.predictor]} | others

    def only(places: Tensor) -> Phase:
        return steps(torch.zeros(layout.size, dtype=dtype).index_fill(0, places, 1.0))

    together = (steps(torch.ones(layout.size, dtype=dtype)),)
    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, together if config.turns == "together" else (only(head), only(body)), end),
        merge=merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin, (only(head),), models),
        common=None,
        predict=lambda model, x, key: drawn_probabilities(
            model, x, key, network, layout, config.test_draws, config.noise_std
        ),
        freezes_shared=len(head) > 0,
    )


def _places(network: Network, shared: str) -> tuple[Tensor, Tensor]:
    """Where the shared and the private weights lie in the flat vector."""
    weights = network.init(torch.Generator().manual_seed(0))
    roles, at = sharing(network, tuple(weights), shared), 0
    places: dict[str, Tensor] = {}
    for name, w in weights.items():
        places[name] = torch.arange(at, at + w.numel())
        at += w.numel()
    none = torch.zeros(0, dtype=torch.int64)
    both = [torch.cat([none, *(places[name] for name in names)]) for names in (roles.shared, roles.private)]
    return both[0], both[1]


def _taken(gaussian: Gaussian, places: Tensor) -> Gaussian:
    """Some weights of a Gaussian."""
    return Gaussian(*(vector[places.to(vector.device)] for vector in gaussian))
