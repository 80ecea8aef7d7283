r"""Self-FL: each client balances its own data against the others' by its starting point and its number of steps.

Paper: Chen, Ding, Tramel, Wu, Sahu, Avestimehr, Zhang, "Self-Aware Personalized Federated Learning", NeurIPS 2022,
arXiv:2204.08069. We hold the appendix; equations (1)-(14) are numbered as it refers to them.

Idea: in the model $\theta_m \sim N(\theta_0, \sigma_0^2)$, $\theta_m^{(L)} \sim N(\theta_m, \sigma_m^2)$ (1), the
posterior mean of $\theta_m$ lies between the local optimum and the others' mean. Gradient descent that begins at the
others' mean (7), (10) passes through it on its way to the local optimum; Self-FL stops there (8).

Notation: $w_m = 1 / (\sigma_0^2 + \sigma_m^2)$; $\theta^t$ -> `Server.weights`; $\theta_m^t$ -> `Client.personal`;
$\theta_{m,t}$ -> `Client.local`; $\hat\sigma_m^2$ -> `variance`; $\hat\sigma_0^2$ -> `between`;
$\sum_k w_k$ -> `total`; $\eta$ -> `lr`; $l_m$ -> `Work.length`; $C$ -> activity, `smoothing`.

Deviations: no public code is known; [A] is the appendix, and where it leaves room the reading is a field.
    1. Variances are scalars: means over coordinates of coordinate-wise variances [not said].
    2. Cold start: until both variances are positive, and somebody else was active, a visit is one of FedAvg: it begins
       at the server's weights and takes the experiment's steps; the server then weights equally [0/0 in the formulas].
    3. The others' sum under partial participation [not said]: over the clients of the round before; own weight and the
       correction of (10) only where the client was one of them; the correction's factor is capped -> `cap`. A client
       takes itself for one of them where it trained, so `trains: all` of an experiment does not go with Self-FL.
    4. Step count: printed as $(1 - \eta / B_m \sigma_m^2)^{l_m}$, which contradicts a gradient of the batch's sum. A
       step contracts by $\eta c_m / \sigma_m^2$ with $c_m = B_m / N_m$ ($1 / N_m$ for a mean) -> `contraction`.
       The base is kept in [1e-3, 1 - 1e-9] and $l_m$ in [1, `max_steps`]; a base that had to be raised leaves one step
       and nothing personal -> `clipped`; `rounds.parquet` has the share of such visits as `clipped`.
    5. (3) is not the posterior of (1): given the others, $\theta_m$ has the prior variance
       $\sigma_0^2 + 1/\sum_{k \ne m} w_k$, not $1/\sum_{k \ne m} w_k$ -> `posterior`.
    6. (19), the running variance, is printed without a square -> `online_variance`.
    7. `variance: known` takes $\sigma_m^2 = v / N_m$ and $\sigma_0^2$ from the configuration, as Figures 4-6 need.
    8. Smoothing $\theta^t = (1 - C) \theta^{t-1} + C \hat\theta^t$ [A G.5] -> `smoothing`.
    9. Algorithm 2 goes on to the local optimum: until a step moves the weights by at most `tolerance` of their length,
       or `converge_steps`. [A] states no rule.
    10. Cluster level [A, Table 5]: the server keeps the latest model of each group of neighbouring clients and
       aggregates over groups, also those with nobody active; a client then begins at the server's weights, without the
       correction of (10) -> `clients_per_cluster`.
    11. A newcomer begins at the server's weights; its steps follow (8) where variances are known.

Reduces to: FedAvg's plain mean when sigma_0 -> 0 and all sigma_m are equal; local training when sigma_0 -> infinity
(with the exact posterior; with the paper's rule, when the others' sum goes to 0 with it).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import ConfigDict, Field, PositiveInt, model_validator
from torch import Tensor

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.config import MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Cohort, Facts, Feed, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.parts.average import moved_towards, weighted_mean
from fedbayes.parts.weights import Meter, batch_loss, dtype_of, new_meter, probabilities
from fedbayes.tensors import Params

# Variances up to FLOOR are none; the base of (8), 1 - c, is kept between LEAST_BASE and 1 - LEAST_CONTRACTION.
FLOOR = 1e-12
ROUNDING = 1e-6
LEAST_BASE, LEAST_CONTRACTION = 1e-3, 1e-9
NEVER = -2  # the round a client was last active in, before its first


class Config(MethodConfig):
    """Fields of Self-FL."""

    # For the schema that planning checks against, what `knows_its_variances` says.
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"variance": {"const": "known"}}},
            "then": {"required": ["sample_variance", "client_variance"]},
        }
    )

    lr: float = Field(gt=0, description="eta, step size.")
    gradient: Literal["sum", "mean"] = Field(description="Of a batch's losses; Algorithm 1 has the sum.")
    algorithm: Literal[1, 2] = Field(description="1, or 2: on to the local optimum, two models uploaded.")
    steps: Literal["adaptive", "fixed"] = Field(description="l_m by (8), or the experiment's steps (Sent140, G.4).")
    max_steps: PositiveInt = Field(description="Most l_m.")
    contraction: Literal["consistent", "printed", "one"] = Field(description="c_m: B_m / N_m, 1 / B_m, or 1.")
    clipped: Literal["one", "usual"] = Field(description="l_m where the base of (8) had to be raised.")
    cap: float = Field(gt=0, description="Largest factor w_m / sum of the correction in (10).")
    posterior: Literal["paper", "exact"] = Field(description="The weight of the others in (8).")
    variance: Literal["known", "estimated"] = Field(description="Where sigma_0^2 and sigma_m^2 come from.")
    sample_variance: float | None = Field(None, gt=0, description="v of sigma_m^2 = v / N_m; for known variances.")
    client_variance: float | None = Field(None, ge=0, description="sigma_0^2; for known variances.")
    online_variance: Literal["correct", "printed"] = Field(description="With or without the square missing in (19).")
    smoothing: Literal["activity", "none"] = Field(description="Weight of a new estimate: C, or 1.")
    clients_per_cluster: PositiveInt | None = Field(None, description="Neighbours in a cluster; absent: client level.")
    converge_steps: PositiveInt = Field(description="Of Algorithm 2: most steps to the local optimum.")
    tolerance: float = Field(gt=0, description="Of Algorithm 2: the relative move at which it stops.")

    @model_validator(mode="after")
    def knows_its_variances(self) -> Config:
        """Known variances have numbers, estimated ones have none."""
        given = [self.sample_variance is not None, self.client_variance is not None]
        if any(given) != all(given) or all(given) != (self.variance == "known"):
            raise ValueError("sample_variance and client_variance belong to `variance: known`, which needs both")
        return self


class Clusters(NamedTuple):
    """The latest model of each cluster and its variance."""

    weights: Params  # [cluster, ...]
    variance: Tensor  # [cluster]
    seen: Tensor  # [cluster]


class Server(NamedTuple):
    """The common weights, and what clients need to know of each other."""

    weights: Params
    between: Tensor  # sigma_0^2
    total: Tensor  # sum of w_k over those the weights were made of; 0 before the first round
    clusters: Clusters | tuple[()]


class Down(NamedTuple):
    """What is sent: the weights and two numbers."""

    weights: Params
    between: Tensor
    total: Tensor


class Up(NamedTuple):
    """What is uploaded: Algorithm 1 the personal model and one number, Algorithm 2 the local optimum as well."""

    personal: Params
    local: Params  # empty in Algorithm 1
    variance: Tensor


class Client(NamedTuple):
    """What a client keeps."""

    personal: Params  # theta_m^t
    local: Params  # theta_{m,t}; empty in Algorithm 1
    mean: Params  # of its models so far; empty where variances are known
    variance: Tensor  # of its models so far
    visits: Tensor  # how many these are
    sent: Tensor  # the variance it uploaded last
    last: Tensor  # the round it was last active in


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params  # on their way from theta^INIT to theta_m^t
    personal: Params  # what would be tested if the visit ended now
    local: Params  # on their way to the local optimum; empty in Algorithm 1
    client: Client
    variance: Tensor  # sigma_m^2 as this visit sees it
    length: Tensor  # l_m
    clipped: Tensor  # whether the base of (8) had to be raised
    settled: Tensor  # whether the local optimum is reached
    round: Tensor
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """Self-FL for a network."""
    lr = torch.tensor(config.lr, dtype=torch.float64)
    twice = config.algorithm == 2

    def init(key: Key, population: int) -> Server:
        weights = network.init(rng.generator(key))
        none = torch.zeros((), dtype=dtype_of(weights))
        between = none if config.client_variance is None else none + config.client_variance
        if config.clients_per_cluster is None:
            return Server(weights, between, none, ())
        count = -(-population // config.clients_per_cluster)
        models = {name: w.expand(count, *w.shape).clone() for name, w in weights.items()}
        return Server(weights, between, none, Clusters(models, none.expand(count).clone(), torch.zeros(count).bool()))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        none, zero = torch.zeros_like(server.between), torch.zeros_like(facts.size)
        mean = server.weights if config.variance == "estimated" else {}
        return Client(server.weights, server.weights if twice else {}, mean, none, zero, none, zero + NEVER)

    def send(server: Server, client: Tensor) -> Down:
        return Down(server.weights, server.between, server.total)

    def begin(down: Down, client: Client, facts: Facts, key: Key) -> Work:
        variance = client.variance
        if config.sample_variance is not None:
            variance = config.sample_variance / facts.size.to(variance.dtype)
        # Was this client one of those the sum is about? At cluster level the sum is about clusters.
        counted = client.last == facts.round - 1
        if config.clients_per_cluster is not None:
            counted = torch.zeros_like(counted)
        own = inverse(down.between + client.sent)
        others = down.total - torch.where(counted, own, 0.0)
        # A client that was alone is left with rounding errors, not with others.
        warm = (variance > FLOOR) & (others > ROUNDING * down.total) & ~(counted & (client.sent <= FLOOR))
        if config.variance == "estimated":
            warm = warm & (down.between > FLOOR)
        others = torch.where(warm, others, 1.0)
        factor = torch.where(warm & counted, (own / others).clamp_max(config.cap), 0.0)
        weights = others_mean(down.weights, client.local if twice else client.personal, factor)
        length, clipped = step_count(variance, down.between, others, facts, warm)
        return Work(
            weights, client.personal, client.local, client, variance, length, clipped,
            torch.zeros_like(clipped), facts.round, new_meter(facts, dtype_of(weights)),
        )  # fmt: skip

    def step_count(
        variance: Tensor, between: Tensor, others: Tensor, facts: Facts, warm: Tensor
    ) -> tuple[Tensor, Tensor]:
        """l_m by (8) where it can be had, otherwise the experiment's steps; and whether the base had to be raised."""
        safe = torch.where(warm, variance, 1.0)
        size, batch = (count.to(safe.dtype) for count in (facts.size, facts.batch))
        share = {
            "consistent": (batch if config.gradient == "sum" else 1) / size,
            "printed": 1 / batch,
            "one": torch.ones_like(safe),
        }[config.contraction]
        contraction = config.lr * share / safe
        others_weight = others if config.posterior == "paper" else 1 / (between + 1 / others)
        found = steps_to_posterior(safe, others_weight, contraction).clamp(1, config.max_steps)
        clipped = warm & (contraction > 1 - LEAST_BASE)
        if config.clipped == "usual":
            found = torch.where(clipped, facts.steps, found)
        usual = facts.steps if config.steps == "fixed" else torch.where(warm, found, facts.steps)
        return usual, clipped

    def gradient(weights: Params, batch: Batch) -> tuple[Params, Tensor]:
        """Of the sum or the mean of a batch's losses, and their mean."""
        grads, value = grad_and_value(batch_loss)(weights, network, batch)
        samples = batch.mask.sum().clamp_min(1)
        mean = value / samples if network.reduction == "sum" else value
        if config.gradient == network.reduction:
            return grads, mean
        factor = samples if config.gradient == "sum" else 1 / samples
        return {name: factor * g for name, g in grads.items()}, mean

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """Eq. (5) for a batch: theta <- theta - eta grad sum_i loss(z_i; theta)."""
        grads, loss = gradient(work.weights, batch)
        weights = optim.sgd(work.weights, grads, lr)
        return work._replace(
            weights=weights, personal=weights, local=weights if twice else {}, meter=work.meter.add(loss)
        )

    def settle(work: Work, batch: Batch, key: Key) -> Work:
        """Algorithm 2: a step towards the local optimum, none once it is reached."""
        grads, _ = gradient(work.local, batch)
        moves = {name: lr * g for name, g in grads.items()}
        still = squared_length(moves) <= config.tolerance**2 * squared_length(work.local).clamp_min(FLOOR)
        settled = work.settled | still
        local = {name: torch.where(settled, w, w - moves[name]) for name, w in work.local.items()}
        return work._replace(local=local, settled=settled)

    def to_convergence(feed: Feed) -> Feed:
        return feed._replace(amount=config.converge_steps, unit="batches")

    def end(work: Work) -> tuple[Client, Up, dict[str, Tensor]]:
        mean, variance, count = work.client.mean, work.client.variance, work.client.visits + 1
        if config.variance == "estimated":
            new = work.local if twice else work.personal
            mean, variance = running_variance(mean, variance, count, new, config.online_variance == "correct")
        client = Client(work.personal, work.local, mean, variance, count, work.variance, work.round)
        dtype = work.variance.dtype
        report = {"steps": work.length.to(dtype), "clipped": work.clipped.to(dtype)}
        return client, Up(work.personal, work.local, work.variance), work.meter.info() | report

    def merge(server: Server, up: Up, cohort: Cohort, key: Key) -> Server:
        """Eqs. (11), (22)-(23): the variance between models and their mean, weighted by w_m, smoothed."""
        models, variance = up.local if twice else up.personal, up.variance
        counted, clusters = torch.ones_like(variance), server.clusters
        if isinstance(clusters, Clusters):
            assert config.clients_per_cluster is not None
            clusters = newest(clusters, models, variance, cohort.ids // config.clients_per_cluster)
            models, variance, counted = clusters.weights, clusters.variance, clusters.seen.to(variance.dtype)
        between = server.between if config.variance == "known" else spread(models, counted)
        own, total = aggregation_weights(between, variance, counted, known=config.variance == "known")
        estimate = weighted_mean(models, own)
        rate = len(cohort.ids) / cohort.population if config.smoothing == "activity" else 1.0
        return Server(moved_towards(server.weights, estimate, rate), between, total, clusters)

    def models(work: Work) -> dict[str, Params]:
        return {"pm": work.personal}

    early = Phase(step, length=lambda work: work.length)
    optimum = Phase(settle, to_convergence, done=lambda work: work.settled)
    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, (early, optimum) if twice else (early,), end),
        merge=merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin, (early,), models),
        common=lambda server: server.weights,
        predict=lambda weights, x, key: probabilities(network, weights, x),
        per_visit=("steps",),
    )


def inverse(variance: Tensor) -> Tensor:
    """1 / variance, 0 where it is none."""
    return torch.where(variance > FLOOR, 1 / variance.clamp_min(FLOOR), 0.0)


def others_mean(weights: Params, own: Params, factor: Tensor) -> Params:
    r"""Eq. (10): $\theta - \frac{w_m}{\sum_{k \ne m} w_k} (\theta_m - \theta)$, the others' mean from the mean."""
    return {name: w - factor * (own[name] - w) for name, w in weights.items()}


def steps_to_posterior(variance: Tensor, others: Tensor, contraction: Tensor) -> Tensor:
    r"""Eq. (8): the whole number next to the $l$ of $(1 - c)^l = o / (1/\sigma_m^2 + o)$.

    Args:
        variance: sigma_m^2.
        others: o, the weight of the others: the sum of w_k, k != m, or the exact prior precision.
        contraction: c = eta c_m / sigma_m^2, the share of the distance to the local optimum that a step takes.
    """
    # log(1 - c) and the logarithm of the target without the digits that 1 - c and the quotient would lose in float32.
    target = -torch.log1p(1 / (variance * others))
    return (
        (target / torch.log1p(-contraction.clamp(LEAST_CONTRACTION, 1 - LEAST_BASE))).clamp_max(2.0**30).round().long()
    )


def running_variance(
    mean: Params, variance: Tensor, count: Tensor, new: Params, correct: bool
) -> tuple[Params, Tensor]:
    r"""Mean and variance with one model more, Eqs. (18)-(19); variances are means over coordinates.

    $\bar x_t = \frac{t-1}{t} \bar x_{t-1} + \frac{x_t}{t}$ and
    $s_t = \frac{t-1}{t} [s_{t-1} + (\bar x_t - \bar x_{t-1})^2] + \frac{(x_t - \bar x_t)^2}{t}$; printed without the
    first square, in which form it is not the variance and can be negative.

    Args:
        mean: of the t - 1 models before.
        variance: of these.
        count: t.
        new: the model x_t.
        correct: with the square.
    """
    t = count.to(variance.dtype)
    moved = {name: ((t - 1) * m + new[name]) / t for name, m in mean.items()}
    shift = {name: moved[name] - m for name, m in mean.items()}
    size = sum(m.numel() for m in mean.values())
    change = squared_length(shift) / size if correct else sum(s.sum() for s in shift.values()) / size
    rest = squared_length({name: x - moved[name] for name, x in new.items()}) / size
    return moved, (t - 1) / t * (variance + change) + rest / t


def squared_length(params: Params) -> Tensor:
    """Sum of squares of all weights."""
    return torch.stack([w.square().sum() for w in params.values()]).sum()


def spread(models: Params, counted: Tensor) -> Tensor:
    """Variance over stacked models, mean over coordinates; `counted` is 1 for a model that counts, 0 otherwise."""
    rows = torch.cat([leaf.flatten(1) for leaf in models.values()], 1)
    share = counted / counted.sum().clamp_min(1)
    gaps = rows - torch.tensordot(share, rows, dims=1)
    variances: Tensor = torch.tensordot(share, gaps.square(), dims=1)
    return variances.mean()


def aggregation_weights(between: Tensor, variance: Tensor, counted: Tensor, known: bool) -> tuple[Tensor, Tensor]:
    r"""Shares $w_m / \sum_k w_k$ of the models, $w_m = 1 / (\sigma_0^2 + \sigma_m^2)$, and the sum.

    A model without a variance yet counts like the mean of the others; while there is none at all, everybody counts
    equally and the sum is 0.
    """
    ready = (variance > FLOOR) & (counted > 0)
    if not known:
        ready = ready & (between > FLOOR)
    own = torch.where(ready, inverse(between + variance), 0.0)
    number = ready.sum()
    typical = own.sum() / number.clamp_min(1)
    filled = torch.where(ready, own, torch.where(number > 0, typical, 1.0)) * counted
    return filled / filled.sum().clamp_min(FLOOR), torch.where(number > 0, filled.sum(), 0.0)


def newest(clusters: Clusters, models: Params, variance: Tensor, places: Tensor) -> Clusters:
    """Clusters with the mean of their active clients' models; those with nobody active stay as they were.

    Args:
        clusters: as they were.
        models: of the active clients, stacked.
        variance: of each.
        places: whose cluster each belongs to.
    """
    belongs = (torch.arange(len(clusters.seen), device=places.device)[:, None] == places).to(variance.dtype)
    number = belongs.sum(1)
    shares = belongs / number.clamp_min(1)[:, None]
    active = number > 0

    def updated(old: Tensor, new: Tensor) -> Tensor:
        found = torch.tensordot(shares.to(new.dtype), new, dims=1)
        return torch.where(active.reshape(-1, *[1] * (old.dim() - 1)), found, old)

    weights = {name: updated(old, models[name]) for name, old in clusters.weights.items()}
    return Clusters(weights, updated(clusters.variance, variance), clusters.seen | active)
