r"""FedPop: a shared body by stochastic approximation, and a Langevin chain over each client's own head.

Paper: Kotelevskii, Vono, Durmus, Moulines, "FedPop: A Bayesian Approach for Personalised Federated Learning", NeurIPS
2022, arXiv:2206.03611; its algorithm for stateful clients is called FedSOUL in BPFed's tables.

Idea: heads $z_i$ come from a common prior $p(z | \beta)$, and the body $\phi$ is a parameter. The expectation step of
EM has no closed form, so each client runs a Markov chain on its head; the server steps $\phi$ and $\beta$ along
gradients averaged over the chain.

Notation: $z_i$ -> `Client.heads`, the last ones of the chain; $\phi$ -> `Server.body`; $\beta$ -> `Server.prior`;
$M$ -> `steps`; burn-in -> `burn_in`; $\gamma$ -> `step_size`; $N$, $S$ -> all clients and those of a round.

Deviations: [P] is the text, [C] the authors' code nkotelevskii/FedPop@5980bfe, [B] BPFed's code.
    1. Chain: $z \leftarrow z - \gamma \nabla U(z) + \sqrt{2\gamma}\,\xi$ with
       $U = -\log p(z|\beta) - \log p(D_i | z, \phi)$ [P]; Adam on U without noise, which samples nothing [C]; a
       mean-field Gaussian over the head, trained by backprop [B] -> `personal`.
    2. Shared steps: the server's, $\phi \leftarrow \phi - \eta \frac{N}{S} \sum_i \bar g_i$ [P]; steps of RMSprop at
       client after client [C]: with `shared: local` a client steps $\phi$ itself and the server averages what comes
       back, so that one client a round (training.clients_per_round: 1) is [C]'s order, where RMSprop's state travels
       along. In [B] each client has one Adam for the whole run -> `optimiser_state`.
    3. The prior's mean and one standard deviation are learnt [P]; N(0, 1) for ever [C, B] -> `prior`.
    4. A step sees all of a client's data [C] or a batch, scaled to all [D] -> `data`.
    5. Predictions average over the last heads of a client's chain [P]; the last one alone [C] -> `heads`.
    6. Step sizes of [P] are not known to us; `step_size` and `lr` of preset `paper` are ours.
    7. [B] holds the Gaussian head against what it was a batch before, with the arguments of the KL exchanged
       -> `prior: previous`.
    8. In [B] a client trains and tests a network of its own, which the broadcast never reaches: its row is local
       training -> `body_start: persistent`; presets `bpfed`, and `mended` with the broadcast loaded.
    9. A newcomer runs a chain of its own on the body as it is.

A visit reports the step size and, for the Langevin chain, how many independent samples the whole chain so far is worth
(behind the burn-in of each visit): $n (1 - r) / (1 + r)$ with the lag-one autocorrelation $r$, the mean over the head's
numbers. The body moves meanwhile, so it is a bound for the chain's own mixing rather than a count.

Reduces to: gradient descent of the body on the sum of all clients' losses when step_size is 0, steps 1, burn_in 0,
prior_weight 0, shared `server`, data `full`, prior `fixed` and all clients take part.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor
from torch.nn import functional as F

from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.flat import flatten, layout_of, unflatten
from fedbayes.bayes.gaussian import Gaussian, inverse_softplus, kl, slope, softplus
from fedbayes.bayes.layers import plain
from fedbayes.config import LATER, MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Cohort, Facts, Feed, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.optim import OptimiserState, optimiser
from fedbayes.parts.average import shares, weighted_mean
from fedbayes.parts.sharing import part, sharing
from fedbayes.parts.weights import Meter, dtype_of, new_meter
from fedbayes.tensors import Params

# rho of a Gaussian head at the start [B].
INITIAL_RHO = -3.0


class Config(MethodConfig):
    """Fields of FedPop."""

    personal: Literal["langevin", "adam", "mean-field"] = Field(description="What happens to a head.")
    step_size: float = Field(ge=0, description="gamma of the chain, or the step size of Adam.")
    steps: PositiveInt = Field(description="M, steps of a visit.")
    inner_steps: PositiveInt = Field(description="Steps on the same data before the next ones, counted as one of M.")
    burn_in: NonNegativeInt = Field(description="Steps before the shared part looks at the head.")
    data: Literal["full", "batches"] = Field(description="All of a client's data in each step, or a scaled batch.")
    likelihood: Literal["sum", "mean"] = Field(description="Log-likelihood of all samples, or their mean.")
    prior: Literal["learned", "fixed", "previous"] = Field(
        description="Prior of the heads: learned, N(0, prior_std^2), or a Gaussian head as the batch found it."
    )
    prior_std: float = Field(gt=0, description="Its standard deviation, at the start.")
    prior_weight: float = Field(ge=0, description="Weight of the prior, or of KL(q || prior), in a head's loss.")
    shared: Literal["server", "local"] = Field(description="Who steps the body: the server, or clients before a mean.")
    body_start: Literal["broadcast", "persistent"] = Field(
        "broadcast",
        json_schema_extra=LATER,
        description="A visit begins with the body that is sent, or with the client's own, as the last visit left it.",
    )
    shared_optimiser: Literal["sgd", "rmsprop", "adam"] = Field(description="Of the body's steps at a client.")
    lr: float = Field(ge=0, description="Step size of the body.")
    lr_prior: float = Field(ge=0, description="Step size of the prior.")
    optimiser_state: Literal["fresh", "kept", "sent"] = Field(
        description="Of steps at a client: new at every visit, kept by the client, or the body's sent along with it."
    )
    heads: PositiveInt = Field(description="Last heads of the chain that a prediction averages over.")
    noise_std: float = Field(ge=0, description="Spread of the chain's noise, or of the Gaussian's.")

    @model_validator(mode="after")
    def fits_together(self) -> Config:
        """A chain must outlast its burn-in, a Gaussian has no chain, and fields that would do nothing are refused."""
        if self.burn_in >= self.steps:
            raise ValueError(f"burn_in: found {self.burn_in}; expected less than the {self.steps} steps")
        if self.personal == "mean-field" and (self.shared == "server" or self.prior == "learned"):
            raise ValueError("`personal: mean-field` goes with `shared: local` and a prior that is not learned")
        if self.shared == "local" and self.prior == "learned":
            raise ValueError("`prior: learned` needs a server that steps it: `shared: server`")
        if self.prior == "previous" and self.personal != "mean-field":
            raise ValueError("`prior: previous` is a Gaussian head: `personal: mean-field`")
        if self.body_start == "persistent" and (self.shared == "server" or self.optimiser_state == "sent"):
            raise ValueError(
                "`body_start: persistent` is a body that clients step and keep: `shared: local`, no state sent"
            )
        if self.shared == "server" and (self.shared_optimiser != "sgd" or self.optimiser_state == "sent"):
            raise ValueError("`shared: server` takes plain steps: `shared_optimiser: sgd` and no state that is sent")
        if self.personal == "adam" and self.noise_std:
            raise ValueError("`personal: adam` has no noise: `noise_std: 0`")
        return self


class Prior(NamedTuple):
    """N(mu, sigma^2) over heads, one sigma for all numbers; sigma by its rho."""

    mu: Tensor
    rho: Tensor


class Server(NamedTuple):
    """The body, the optimiser's state of `shared: local`, the prior, and the head that clients begin with."""

    body: Params
    optimiser: OptimiserState
    prior: Prior
    head: Tensor


class Down(NamedTuple):
    """What a client is sent; a fixed prior need not be."""

    body: Params
    optimiser: OptimiserState
    prior: Prior | tuple[()]


class Up(NamedTuple):
    """What a client sends: mean gradients of body and prior (`server`), or the body and its optimiser's state."""

    body: Params
    optimiser: OptimiserState
    prior: Prior | tuple[()]


class Client(NamedTuple):
    """The last heads of the chain `[head, number]` (of a Gaussian mu and rho), its sums, optimisers' states, a body."""

    heads: Tensor
    chain: Trail | tuple[()]
    optimisers: tuple[OptimiserState, OptimiserState] | tuple[()]
    body: Params  # of `body_start: persistent`


class Trail(NamedTuple):
    """A chain in sums over its heads' deviations from the first one: of them, their squares, neighbours' products."""

    length: Tensor
    origin: Tensor
    first: Tensor
    second: Tensor
    lagged: Tensor
    newest: Tensor


class Work(NamedTuple):
    """A visit in progress."""

    heads: Tensor
    head_state: OptimiserState
    body: Params
    body_state: OptimiserState
    slope: Params  # sum of the body's gradients
    prior: Prior
    trail: Trail  # of this visit
    chain: Trail | tuple[()]  # of all visits
    size: Tensor
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """FedPop for a network."""
    weights = network.init(torch.Generator().manual_seed(0))
    names = tuple(weights)
    roles = sharing(network, names, "body")
    layout = layout_of(part(weights, roles.private))
    lr, lr_prior, prior_weight = (
        torch.tensor(v, dtype=torch.float64) for v in (config.lr, config.lr_prior, config.prior_weight)
    )
    on_body = optimiser(config.shared_optimiser, config.lr)
    on_head = optimiser("sgd" if config.personal == "langevin" else "adam", config.step_size)

    def init(key: Key, population: int) -> Server:
        start = network.init(rng.generator(key))
        body, head = part(start, roles.shared), flatten(part(start, roles.private))
        state = on_body.start(body) if config.optimiser_state == "sent" else {}
        return Server(body, state, first_prior(head), head)

    def first_prior(head: Tensor) -> Prior:
        # One number in a vector: a scalar would take the type of the step sizes.
        return Prior(torch.zeros_like(head), inverse_softplus(head.new_full((1,), config.prior_std)))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        heads = server.head.expand(config.heads, -1).clone()
        if config.personal == "mean-field":
            heads = torch.stack([server.head, torch.full_like(server.head, INITIAL_RHO)])
        states = (on_head.start(_named(heads)), on_body.start(server.body)) if config.optimiser_state == "kept" else ()
        chain = no_trail(server.head, facts) if config.personal == "langevin" else ()
        return Client(heads, chain, states, server.body if config.body_start == "persistent" else {})

    def send(server: Server, client: Tensor) -> Down:
        return Down(server.body, server.optimiser, server.prior if config.prior == "learned" else ())

    def begin(down: Down, client: Client, facts: Facts, key: Key) -> Work:
        return opened(down, client, facts, client.body or down.body)

    def begin_new(down: Down, client: Client, facts: Facts, key: Key) -> Work:
        """A newcomer has no body of its own: it takes the broadcast one."""
        return opened(down, client, facts, down.body)

    def opened(down: Down, client: Client, facts: Facts, body: Params) -> Work:
        head_state, body_state = client.optimisers or (on_head.start(_named(client.heads)), on_body.start(body))
        if config.optimiser_state == "sent":
            body_state = down.optimiser
        trail = no_trail(client.heads[-1], facts)
        sums = {n: torch.zeros_like(w) for n, w in down.body.items()} if config.shared == "server" else {}
        prior = Prior(*client.heads) if config.prior == "previous" else down.prior or first_prior(client.heads[-1])
        meter = new_meter(facts, client.heads.dtype)
        return Work(client.heads, head_state, body, body_state, sums, prior, trail, client.chain, facts.size, meter)

    def potential(both: tuple[Params, Params], work: Work, batch: Batch, key: Key) -> Tensor:
        r"""$U(z, \phi)$, up to constants: the data's and the prior's part."""
        body, head = both
        count = batch.mask.sum().clamp_min(1)
        if config.personal == "mean-field":
            q = Gaussian(*head["z"])
            z = q.mu + config.noise_std * q.sigma * rng.normal(key, layout.size, q.mu.dtype)
            p = Gaussian(work.prior.mu, work.prior.rho.expand_as(q.rho))
            rest = kl(p, q) if config.prior == "previous" else kl(q, p)
        else:
            z = head["z"][-1]
            rest = 0.5 * ((z - work.prior.mu) / softplus(work.prior.rho)).square().sum()
        outputs = network.apply(plain(part(body | unflatten(z, layout), names)), batch.x)
        mean = (network.loss(outputs, batch.y) * batch.mask).sum() / count
        fit = mean * work.size if config.likelihood == "sum" else mean
        return fit + prior_weight * rest

    def step(samples: bool, alone: bool = False) -> Phase:
        """Steps of a visit, within the burn-in or behind it; `alone` leaves the body as it is."""

        def some(work: Work, batch: Batch, key: Key) -> Work:
            if config.prior == "previous":
                work = work._replace(prior=Prior(*work.heads))
            for inner in range(config.inner_steps):
                work = one(work, batch, key if config.inner_steps == 1 else rng.fold(key, inner))
            return work

        def one(work: Work, batch: Batch, key: Key) -> Work:
            """A step of the head, and behind the burn-in of the body, or of the sum of its gradients."""
            at = (work.body, _named(work.heads))
            (grads, head_grads), loss = grad_and_value(potential)(at, work, batch, rng.fold(key, 0))
            heads, head_state = move_head(work, head_grads, rng.fold(key, 1))
            work = work._replace(meter=work.meter.add(loss))
            if samples and not alone:
                work = shared_step(work, grads)
            if samples:
                chain = noted(work.chain, work.heads[-1]) if work.chain else work.chain
                work = work._replace(trail=noted(work.trail, work.heads[-1]), chain=chain)
            return work._replace(heads=heads, head_state=head_state)

        count = config.steps - config.burn_in if samples else config.burn_in

        def feed(experiment: Feed) -> Feed:
            order = "full" if config.data == "full" else experiment.order
            return experiment._replace(amount=count, unit="batches", order=order)

        return Phase(some, feed)

    def shared_step(work: Work, grads: Params) -> Work:
        """A step of the body, or one gradient more for the server's."""
        if config.shared == "server":
            return work._replace(slope={n: work.slope[n] + g for n, g in grads.items()})
        body, state = on_body.step(work.body, grads, work.body_state)
        return work._replace(body=body, body_state=state)

    def move_head(work: Work, grads: Params, key: Key) -> tuple[Tensor, OptimiserState]:
        """A step of the Gaussian; or the next head, behind the ones that are kept, with the chain's noise."""
        moved, state = on_head.step(_named(work.heads), grads, work.head_state)
        if config.personal == "mean-field":
            return moved["z"], state
        new = moved["z"][-1]
        if config.personal == "langevin":
            noise = rng.normal(key, layout.size, new.dtype)
            new = new + config.noise_std * math.sqrt(2 * config.step_size) * noise
        return torch.cat([work.heads[1:], new[None]]), state

    def end(work: Work) -> tuple[Client, Up, dict[str, Tensor]]:
        count, info = work.trail.length.clamp_min(1), work.meter.info()
        info["step_size"] = torch.full_like(work.meter.loss, config.step_size)
        if work.chain:
            info["effective_samples"] = effective_samples(work.chain)
        states = (work.head_state, work.body_state) if config.optimiser_state == "kept" else ()
        client = Client(work.heads, work.chain, states, work.body if config.body_start == "persistent" else {})
        if config.shared == "local":
            return client, Up(work.body, work.body_state if config.optimiser_state == "sent" else {}, ()), info
        mean = {n: g / count for n, g in work.slope.items()}
        slope_of_prior = prior_slope(work.prior, work.trail) if config.prior == "learned" else ()
        return client, Up(mean, {}, slope_of_prior), info

    def merge(server: Server, up: Up, cohort: Cohort, key: Key) -> Server:
        """Body and prior along the chains' mean gradients, as if all N clients had sent theirs."""
        mean = weighted_mean(up, shares(cohort, "uniform", dtype_of(up.body)))
        if config.shared == "local":
            return server._replace(body=mean.body, optimiser=mean.optimiser)
        body = {n: w - lr * cohort.trained * mean.body[n] for n, w in server.body.items()}
        if config.prior == "fixed":
            return server._replace(body=body)
        moved = (v - lr_prior * cohort.trained * g for v, g in zip(server.prior, mean.prior, strict=True))
        return server._replace(body=body, prior=Prior(*moved))

    def models(work: Work) -> dict[str, tuple[Params, Tensor]]:
        return {"pm": (work.body, work.heads)}

    def predict(model: tuple[Params, Tensor], x: Tensor, key: Key) -> Tensor:
        """Probabilities with each of the heads; of a Gaussian, with draws of it."""
        body, heads = model
        if config.personal == "mean-field":
            q, noise = Gaussian(*heads), rng.normal(rng.streams(key, config.heads), layout.size, heads.dtype)
            heads = q.mu + config.noise_std * q.sigma * noise

        def forward(head: Tensor) -> Tensor:
            return F.softmax(network.apply(plain(part(body | unflatten(head, layout), names)), x), dim=-1)

        return torch.vmap(forward)(heads)

    def phases(alone: bool = False) -> tuple[Phase, ...]:
        return (*((step(False, alone),) if config.burn_in else ()), step(True, alone))

    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, phases(), end),
        merge=merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin_new, phases(alone=True), models),
        common=None,
        predict=predict,
        freezes_shared=True,
    )


def no_trail(head: Tensor, facts: Facts) -> Trail:
    """Before the first head."""
    return Trail(torch.zeros_like(facts.size), *[torch.zeros_like(head)] * 5)


def noted(trail: Trail, head: Tensor) -> Trail:
    """With one head more."""
    origin = torch.where(trail.length > 0, trail.origin, head)
    away = head - origin
    return Trail(
        trail.length + 1,
        origin,
        trail.first + away,
        trail.second + away**2,
        trail.lagged + trail.newest * away,
        away,
    )


def effective_samples(trail: Trail) -> Tensor:
    r"""$n (1 - r) / (1 + r)$, the mean over coordinates; $r$ is the lag-one autocorrelation, 0 if negative."""
    count = trail.length.clamp_min(1).to(trail.first.dtype)
    mean = trail.first / count
    around = trail.second - count * mean**2
    # The first head has no neighbour before it, so `lagged` has count - 1 products; its own deviation is 0.
    together = trail.lagged - mean * (2 * trail.first - trail.newest) + (count - 1) * mean**2
    still = around <= 0
    r = torch.where(still, torch.ones_like(mean), together / torch.where(still, torch.ones_like(mean), around))
    return (count * (1 - r.clamp(0, 1)) / (1 + r.clamp(0, 1))).mean()


def prior_slope(prior: Prior, trail: Trail) -> Prior:
    r"""Gradient of $-\log p(z | \beta)$ in $\beta$, the mean over the chain."""
    count, sigma = trail.length.clamp_min(1), softplus(prior.rho)
    mean, square = trail.first / count, trail.second / count
    gap = trail.origin - prior.mu
    spread = square + 2 * mean * gap + gap**2
    in_sigma = (1 / sigma - spread / sigma**3).sum(-1, keepdim=True)
    return Prior(-(gap + mean) / sigma**2, in_sigma * slope(prior.rho))


def _named(heads: Tensor) -> Params:
    return {"z": heads}
