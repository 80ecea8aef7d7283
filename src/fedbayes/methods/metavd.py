r"""MetaVD: a hypernetwork on the server gives each client the dropout rates of its variational dropout.

Paper: Jeon, Hong, Yun, Kim, "Federated Learning via Meta-Variational Dropout", NeurIPS 2023.

Idea: weights $\theta \sim N(w, e^{a_i})$ have a mean for all and a variance of each client, which a hypernetwork makes
of the client's embedding. The server counts a client's weight by its precision, so that what a client has dropped
hardly moves the others; mean, hypernetwork and embeddings then follow the clients' changes as if these were gradients.

Notation: $w$ -> `Server.weights`; $a_i = h(e_i)$ -> `log_variance`; $h$, $e_i$ -> `Server.hyper`; $\beta$ -> `beta`;
$\alpha = e^a / w^2$, the dropout rate, is not stored.

Deviations: [C] is the authors' code insujeon/MetaVD@5d70c2b, with details read in its commit 50a0c52; [L] is what
LR-BPFL says of MetaVD; [D] is ours.
    1. One fully connected layer is stochastic in [C], the one before the head -> `stochastic: neck`. All layers double
       what travels [L] -> `stochastic: all`; biases are never stochastic.
    2. The hypernetwork has an output for each weight [C]. For all layers that would be hundreds of millions of weights
       of its own: `outputs: unit` gives the weights into one unit (channel, word) the same start [D]. Clients still
       train and upload a number for each weight.
    3. KL: the mean of $\frac12 \log(1 + w^2/e^a)$ over the stochastic weights, without a gradient in w [C]; where there
       are several layers, over the weights of all of them [D].
    4. The weight of the KL term: [C] has one cycle with a sigmoid ramp over the first 2 % of the rounds, its scheduler
       by default four cycles with ramps over half of each -> `cycle`, `ramp`, `ramp_shape`, in rounds [D].
    5. The loss of a step is that of the mean of the draws' logits [C]; `expected` is the mean of the draws' losses, the
       usual bound [D] -> `likelihood`.
    6. Log-variances are cut from below wherever they are used [C], where their gradient vanishes -> `floor`. Its cut
       from above, at 8.5, is out of reach and left out. Norms of gradients are cut at 5 and of the server's at 100 [C]
       -> `clip`, `server_clip`.
    7. The pseudo-gradient is start - end, as Reptile has it, the default of [C]; its variants on MAML and Per-FedAvg,
       and its dropping of weights by rate (switched off in [C]), are not here.
    8. Testing, a client takes a step on a training batch and predicts with mean weights [C]. The step begins with the
       client's own variance [D], or with one for all [C] -> `adapt_from`. A newcomer's embedding was never trained:
       always the one for all [C].
    9. Initial weights are the network's own; [C] draws most of them with Xavier's variance.

Reduces to: FedAvg with noise_std 0, beta 0, server_lr 1, momentum 0, no clip and equal variances (embedding_std 0).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.aggregation import aggregate
from fedbayes.bayes.annealing import Shape, cyclical
from fedbayes.bayes.flat import Layout, unflatten
from fedbayes.bayes.gaussian import Gaussian, inverse_softplus
from fedbayes.bayes.layers import plain, reparameterised
from fedbayes.bayes.variational_dropout import divergence
from fedbayes.config import MethodConfig
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Batch, Cohort, Facts, Feed, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.parts import hypernetwork
from fedbayes.parts.average import Weighting, shares, weighted_mean
from fedbayes.parts.clipping import clipped
from fedbayes.parts.hypernetwork import Hypernetwork
from fedbayes.parts.sharing import layers
from fedbayes.parts.weights import Meter, dtype_of, new_meter, probabilities
from fedbayes.reading import ConfigError
from fedbayes.tensors import Layer, Op, Params

# The words of `parts.sharing`, and `neck`, the layer before the head.
Stochastic = Annotated[str, Field(pattern=r"^(neck|all|body|head|(all but )?(first|last) [1-9]\d*)$")]
T = TypeVar("T")


class Config(MethodConfig):
    """Fields of MetaVD."""

    lr: float = Field(ge=0, description="Step size of local SGD on w and a.")
    clip: float | None = Field(gt=0, description="A local gradient's largest norm; empty: any.")
    stochastic: Stochastic = Field(description="Layers whose weights are drawn; `neck` is the one before the head.")
    outputs: Literal["weight", "unit"] = Field(
        description="The hypernetwork has an output for each weight, or for all weights into a unit."
    )
    hidden: PositiveInt = Field(description="Units of the hypernetwork's hidden layers.")
    depth: PositiveInt = Field(description="Number of its hidden layers.")
    bound: float = Field(gt=0, description="Its outputs are cut at +- this and lowered by it: a is in [-2 bound, 0].")
    floor: float | None = Field(description="Where a is cut from below when it is used; empty: nowhere.")
    embedding_std: float = Field(ge=0, description="Spread of the initial embeddings.")
    beta: float = Field(ge=0, description="beta, height of the weight of the KL term.")
    cycle: PositiveInt | None = Field(description="Rounds of a cycle of this weight; empty: one that never ends.")
    ramp: PositiveInt = Field(description="Rounds of a cycle that the weight rises for.")
    ramp_shape: Shape = Field(description="How it rises.")
    draws: PositiveInt = Field(description="Draws of a step.")
    noise_std: float = Field(ge=0, description="Spread of the noise in a draw.")
    likelihood: Literal["expected", "logits"] = Field(description="Mean loss of the draws, or loss of their mean.")
    server_lr: float = Field(ge=0, description="Step size of the server, for all it keeps.")
    momentum: float = Field(ge=0, lt=1, description="The server's momentum of w.")
    hyper_momentum: float = Field(ge=0, lt=1, description="The server's momentum of the hypernetwork.")
    embedding_momentum: float = Field(ge=0, lt=1, description="The server's momentum of the embeddings.")
    weight_decay: float = Field(ge=0, description="L2 pull of the server on hypernetwork and embeddings.")
    server_clip: float | None = Field(gt=0, description="The largest norm of the server's gradient; empty: any.")
    adapt_steps: PositiveInt = Field(description="Steps before a test.")
    adapt_from: Literal["own", "constant"] = Field(
        description="The log-variance that these begin with: the client's, or -bound."
    )
    weighting: Weighting = Field(description="p_i: n_i / n, or 1 / S.")


class Kept(NamedTuple):
    """What the server descends on, or a gradient of it, or a velocity."""

    weights: Params
    hyper: Hypernetwork


class Server(NamedTuple):
    """Mean weights and the hypernetwork, and their velocities."""

    weights: Params
    hyper: Hypernetwork
    velocity: Kept


class Posterior(NamedTuple):
    """What travels, both ways: all weights, and the log-variance of the stochastic ones."""

    weights: Params
    log_variance: Params


class Client(NamedTuple):
    """A client keeps nothing between rounds."""


class Work(NamedTuple):
    """A visit in progress."""

    q: Posterior
    beta: Tensor  # weight of the KL term in this round
    meter: Meter
    fit: Tensor  # sum of the losses without KL


def build(config: Config, network: Network) -> Method:
    """MetaVD for a network."""
    example = network.init(torch.Generator().manual_seed(0))
    drawn_layers = stochastic_layers(network, config.stochastic)
    names = tuple(f"{layer}.weight" for layer in drawn_layers)
    shapes = tuple(example[name].shape for name in names)
    if config.outputs == "unit":
        # One number a row, which is then repeated along the row.
        layout = Layout(names, tuple(torch.Size((len(example[n]), *[1] * (example[n].dim() - 1))) for n in names))
    else:
        layout = Layout(names, shapes)
    lr = torch.tensor(config.lr, dtype=torch.float64)
    sizes = (*[config.hidden] * config.depth, layout.size)

    def init(key: Key, population: int) -> Server:
        weights = network.init(rng.generator(key))
        stream = rng.generator(rng.fold(key, 1))
        hyper = hypernetwork.start(stream, population, sizes, config.embedding_std, dtype_of(weights))
        return Server(weights, hyper, trees.each(torch.zeros_like, Kept(weights, hyper)))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client()

    def log_variance(hyper: Hypernetwork, client: Tensor) -> Params:
        """a_i = h(e_i), cut and lowered."""
        found = hypernetwork.answer(hyper, client).clamp(-config.bound, config.bound) - config.bound
        by_name = unflatten(found, layout)
        return {name: by_name[name].expand(shape) for name, shape in zip(names, shapes, strict=True)}

    def send(server: Server, client: Tensor) -> Posterior:
        return Posterior(server.weights, log_variance(server.hyper, client))

    def begin(down: Posterior, client: Client, facts: Facts, key: Key) -> Work:
        dtype = dtype_of(down.weights)
        share = cyclical(facts.round, config.cycle, config.ramp, config.ramp_shape, dtype)
        meter = new_meter(facts, dtype)
        return Work(down, config.beta * share, meter, torch.zeros_like(meter.loss))

    def begin_constant(down: Posterior, client: Client, facts: Facts, key: Key) -> Work:
        """With the same variance for everybody: whose embedding it is does not matter."""
        constant = {name: torch.full_like(a, -config.bound) for name, a in down.log_variance.items()}
        return begin(down._replace(log_variance=constant), client, facts, key)

    def used(log_variance: Params) -> Params:
        if config.floor is None:
            return log_variance
        return {name: a.clamp_min(config.floor) for name, a in log_variance.items()}

    def likelihood(q: Posterior, batch: Batch, key: Key) -> Tensor:
        """The loss of a batch under some draws of the stochastic layers' outputs."""
        sigma = {name: torch.exp(a / 2) for name, a in used(q.log_variance).items()}

        def outputs(stream: Key) -> Tensor:
            return network.apply(layer_of(q.weights, sigma, stream), batch.x)

        def loss(found: Tensor) -> Tensor:
            total = (network.loss(found, batch.y) * batch.mask).sum()
            return total if network.reduction == "sum" else total / batch.mask.sum().clamp_min(1)

        # What comes before the first noise is the same for all draws, and vmap works it out once.
        found = torch.vmap(outputs)(rng.fold(key, torch.arange(config.draws, device=batch.x.device)))
        return loss(found.mean(0)) if config.likelihood == "logits" else torch.vmap(loss)(found).mean(0)

    def layer_of(weights: Params, sigma: Params, stream: Key) -> Layer:
        def noise(name: str, like: Tensor) -> Tensor:
            numbers = rng.normal(rng.fold(stream, network.layers.index(name)), like.numel(), like.dtype)
            return config.noise_std * numbers.view(like.shape)

        fixed, random = plain(weights), reparameterised(weights, sigma, noise)

        def layer(name: str, op: Op, x: Tensor) -> Tensor:
            return random(name, op, x) if name in drawn_layers else fixed(name, op, x)

        return layer

    def complexity(weights: Params, log_variance: Params) -> Tensor:
        r"""The mean of $\frac12 \log(1 + w^2/e^a)$ over all stochastic weights."""
        cut = used(log_variance)
        return torch.cat([divergence(weights[name], cut[name]).flatten() for name in names]).mean()

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """One SGD step of w and a on the loss plus beta KL."""

        def energy(q: Posterior) -> Tensor:
            # The means of the KL term are those the step began with: no gradient goes through them.
            return likelihood(q, batch, key) + work.beta * complexity(work.q.weights, q.log_variance)

        grads, loss = grad_and_value(energy, passes=config.draws)(work.q)
        if config.clip is not None:
            grads = clipped(grads, config.clip)
        q = Posterior(*(optim.sgd(values, own, lr) for values, own in zip(work.q, grads, strict=True)))
        fit = loss - work.beta * complexity(*work.q)
        return Work(q, work.beta, work.meter.add(loss), work.fit + fit)

    def end(work: Work) -> tuple[Client, Posterior, dict[str, Tensor]]:
        # KL is the larger part of the loss by far, so that the data's part is reported by itself, too.
        fit = work.fit / work.meter.steps.clamp_min(1)
        return Client(), work.q, work.meter.info() | {"fit": fit}

    def merge(server: Server, up: Posterior, cohort: Cohort, key: Key) -> Server:
        """Stochastic weights by precision, others by their mean; then all follow start - end."""
        p = shares(cohort, config.weighting, dtype_of(up.weights))
        merged = weighted_mean(up.weights, p)
        for name, a in used(up.log_variance).items():
            merged[name] = precision_weighted(up.weights[name], a, p)
        grads = Kept(trees.each(torch.sub, server.weights, merged), pseudo_gradient(server.hyper, up, cohort, p))
        if config.server_clip is not None:
            grads = clipped(grads, config.server_clip)
        return descended(server, grads, config)

    def pseudo_gradient(hyper: Hypernetwork, up: Posterior, cohort: Cohort, p: Tensor) -> Hypernetwork:
        r"""$\sum_i p_i\, J_i^T (a_i^{start} - a_i^{end})$ with $J_i$ the Jacobian of $h(e_i)$."""

        def sent(hyper: Hypernetwork) -> Params:
            return torch.vmap(log_variance, in_dims=(None, 0))(hyper, cohort.ids)

        outcome: Any = torch.func.vjp(sent, hyper)
        begun, pull_back = outcome
        change = {n: p.view(-1, *[1] * (a.dim() - 1)) * (a - up.log_variance[n]) for n, a in begun.items()}
        found: Hypernetwork = pull_back(change)[0]
        return found

    def some(feed: Feed) -> Feed:
        return feed._replace(amount=config.adapt_steps, unit="batches")

    def models(work: Work) -> dict[str, Params]:
        return {"pm": work.q.weights}

    adapted = (Phase(step, some),)
    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, (Phase(step),), end),
        merge=merge,
        adapt=Visit(begin if config.adapt_from == "own" else begin_constant, adapted, models),
        newcomer=Visit(begin_constant, adapted, models),
        common=lambda server: server.weights,
        predict=lambda weights, x, key: probabilities(network, weights, x),
    )


def stochastic_layers(network: Network, words: str) -> tuple[str, ...]:
    """Layers by words; `neck` is the one before the head."""
    if words != "neck":
        return layers(network, words)
    if len(network.layers) < 2:
        raise ConfigError(
            f"method metavd: stochastic: found 'neck', but the network has no layer before {network.layers[0]!r}; "
            "expected 'head' or 'all'"
        )
    return network.layers[-2:-1]


def precision_weighted(means: Tensor, log_variance: Tensor, weights: Tensor) -> Tensor:
    r"""$\sum_i p_i w_i e^{-a_i} / \sum_i p_i e^{-a_i}$: the mean of the Gaussians' conflation."""
    return aggregate(Gaussian(means, inverse_softplus(torch.exp(log_variance / 2))), weights, "conflation").mu


def descended(server: Server, grads: Kept, config: Config) -> Server:
    """One step of SGD with momentum; weight decay comes behind the clipping, as in torch.optim.SGD, and spares w."""

    def velocity(old: T, grad: T, at: T, momentum: float, decay: float) -> T:
        return trees.each(lambda v, g, w: momentum * v + g + decay * w, old, grad, at)

    old, hyper, decay = server.velocity, server.hyper, config.weight_decay
    new = Kept(
        velocity(old.weights, grads.weights, server.weights, config.momentum, 0.0),
        Hypernetwork(
            velocity(old.hyper.layers, grads.hyper.layers, hyper.layers, config.hyper_momentum, decay),
            velocity(old.hyper.embeddings, grads.hyper.embeddings, hyper.embeddings, config.embedding_momentum, decay),
        ),
    )
    moved = trees.each(lambda w, v: w - config.server_lr * v, Kept(server.weights, hyper), new)
    return Server(moved.weights, moved.hyper, new)
