r"""PFNM, called BNFed in pFedBayes: hidden neurons of the clients are matched before they are averaged.

Paper: Yurochkin, Agarwal, Ghosh, Greenewald, Hoang, Khazaeni, "Bayesian Nonparametric Federated Learning of Neural
Networks", ICML 2019.

Idea: the neurons of a layer have no order, so that averaging two networks weight by weight mixes unlike neurons. Each
client's neurons are noisy copies of some global ones; a Beta-Bernoulli process says how many of these there are, the
assignment is found by the Hungarian algorithm, and the global layer may be wider than any client's.

Notation: $v_{jl}$, the incoming weights, the bias and the outgoing weights of neuron $l$ of client $j$ -> `vectors`;
$c(j, l)$ -> `Server.assignment`; $\theta_i$ -> `Server.weights`; $\gamma, \sigma^2, \sigma_0^2$ -> `gamma`, `s`, `s0`.
The mathematics is `bayes/neuron_matching.py`. Networks have one hidden layer; others are refused.

Deviations: [C] is IBM/probabilistic-federated-neural-matching@f44cf42, [D] our choice.
    1. The paper has 2 log(m / (J - m)) in the gain of an existing neuron, [C] once -> `popularity`.
    2. The precision of outgoing weights and output biases for a class is 1/s times the client's share of all samples
       of that class [C]; a class that nobody has keeps its prior mean.
    3. New neurons stop at `max_neurons`; [C] adds one more whenever it is there.
    4. Clients without an assignment are matched once, then all are taken out and matched anew `sweeps` times [C]. The
       orders are random; they are drawn for clients sorted by class counts, so that their numbers play no part
       unless counts are equal [D].
    5. A client that is not in a round counts with its last upload and assignment, and J is the number of clients that
       have uploaded [D]; in [C] all are in every round.
    6. The pull is towards 0 in the first round, then towards the weights received; it is multiplied by `reg_decay` from
       round to round, like the step size by `lr_decay`, from the third round on [C]. Biases are free; [C] pulls them in
       the first round.
    7. Clients begin as draws of their own [C], or as one -> `start`.
    8. Once there are global neurons, a client without an assignment gets those that most clients have, which is the
       process's own guess [D].
    9. There is no personal model in the paper: it is the broadcast, a client's own part of the global network [D]. A
       newcomer trains what it got for one visit [D].

Reduces to: the plain mean of clients when s0 goes to infinity, all have the same class counts, and neurons are matched
in their places.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.neuron_matching import Array, Matching, Neurons, Prior, matched
from fedbayes.config import MethodConfig
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Batch, Cohort, Facts, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.optim import OptimiserState, optimiser
from fedbayes.parts.weights import Meter, batch_loss, dtype_of, new_meter, probabilities
from fedbayes.reading import ConfigError
from fedbayes.tensors import Params, exact

LAYERS = ("hidden0", "head")
IN, BIAS, OUT, OUT_BIAS = "hidden0.weight", "hidden0.bias", "head.weight", "head.bias"


class Config(MethodConfig):
    """Fields of PFNM."""

    optimiser: Literal["amsgrad", "sgd"] = Field(description="Of clients, fresh at every visit.")
    lr: float = Field(ge=0, description="Step size of clients.")
    lr_decay: float = Field(gt=0, le=1, description="Factor of the step size from round to round.")
    reg: float = Field(ge=0, description="Weight of half the squared distance from the weights received.")
    reg_decay: float = Field(ge=0, le=1, description="Factor of that weight from round to round.")
    start: Literal["own", "common"] = Field(description="First weights: a draw of each client, or one of all.")
    gamma: float = Field(gt=0, description="gamma, mass of the process: the larger, the more global neurons.")
    s: float = Field(gt=0, description="sigma^2, variance of a client's neuron around the global one.")
    s0: float = Field(gt=0, description="sigma_0^2, variance of global neurons around their prior mean.")
    mu0_bias: float = Field(description="Prior mean of biases, hidden and output; that of weights is 0.")
    popularity: float = Field(ge=0, description="Factor of log(m / (J - m)) in the gain of an existing neuron.")
    count_cap: PositiveInt = Field(description="The largest m that counts.")
    sweeps: PositiveInt = Field(description="Times that each client is taken out and matched anew in a round.")
    max_neurons: PositiveInt = Field(description="The largest width of the global layer.")


class Server(NamedTuple):
    """The global network and what the matching starts from again; shapes are those of the widest global layer."""

    weights: Params  # unused neurons have weights 0
    used: Tensor  # 0-dim: global neurons; 0 before the first matching
    popular: Tensor  # [neuron of a client]: global neurons that most clients have
    assignment: Tensor  # [client, neuron]: its global neuron, -1 for a client not matched so far
    uploads: Params  # each client's last network, at first the one it begins with
    counts: Tensor  # [client, class]: samples


class Client(NamedTuple):
    """A client keeps nothing between rounds."""


class Up(NamedTuple):
    """A client's network and its samples of each class."""

    weights: Params
    counts: Tensor


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    centre: Params  # what weights are pulled to
    pull: Tensor
    scale: Tensor  # of the step size
    optimiser: OptimiserState
    counts: Tensor
    meter: Meter


def build(config: Config, network: Network) -> Method:
    """PFNM for a perceptron with one hidden layer."""
    width = _hidden_width(config, network)
    descent = optimiser(config.optimiser, config.lr)

    def init(key: Key, population: int) -> Server:
        weights = network.init(rng.generator(key))
        firsts = [weights] * population
        if config.start == "own":
            firsts = [network.init(rng.generator(rng.fold(key, client))) for client in range(population)]
        nobody = torch.full((population, width), -1, dtype=torch.int64)
        counts = torch.zeros((population, len(weights[OUT_BIAS])), dtype=torch.int64)
        place, none = torch.arange(width), torch.tensor(0)
        return Server(padded(weights, config.max_neurons), none, place, nobody, trees.stack(firsts), counts)

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client()

    def send(server: Server, client: Tensor) -> Params:
        """A client's own part of the global network; its first weights before there is one."""
        own = server.assignment[client]
        part = columns(server.weights, torch.where(own < 0, server.popular, own))
        return {name: torch.where(server.used > 0, w, server.uploads[name][client]) for name, w in part.items()}

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        dtype = dtype_of(down)
        # The first visit and the first after a matching have the full values.
        times = (facts.round - 1).clamp_min(0).to(dtype)
        received = (facts.round > 0).to(dtype)
        centre = {name: w * received for name, w in down.items()}
        pull, scale = config.reg * config.reg_decay**times, config.lr_decay**times
        return Work(down, centre, pull, scale, descent.start(down), facts.counts, new_meter(facts, dtype))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """One step on the loss plus (reg / 2) |w - centre|^2."""
        grads, loss = grad_and_value(batch_loss)(work.weights, network, batch)
        for name in (IN, OUT):
            grads = grads | {name: grads[name] + work.pull * (work.weights[name] - work.centre[name])}
        weights, state = descent.step(work.weights, grads, work.optimiser, work.scale)
        return work._replace(weights=weights, optimiser=state, meter=work.meter.add(loss))

    def end(work: Work) -> tuple[Client, Up, dict[str, Tensor]]:
        return Client(), Up(work.weights, work.counts), work.meter.info()

    def merge(server: Server, up: Up, cohort: Cohort, key: Key) -> Server:
        """Match the neurons of all clients that have uploaded so far, on the CPU and in float64."""
        uploads = trees.put(server.uploads, cohort.ids, up.weights)
        counts = server.counts.index_copy(0, cohort.ids, up.counts)
        known = (server.assignment[:, 0] >= 0).index_fill(0, cohort.ids, value=True).nonzero().squeeze(1)
        shares, networks = _shares(counts[known]), trees.take(uploads, known)
        found = match(networks, shares, server.assignment[known], orders_of(cohort.ids, known, counts, key))
        # What the matching gives has the type and the place of the weights.
        like = server.weights[OUT_BIAS]
        means, bias = (torch.from_numpy(part).to(like) for part in (found.atoms.means, output_bias(networks, shares)))
        inputs = server.weights[IN].shape[1]
        weights = {IN: means[:, :inputs], BIAS: means[:, inputs], OUT: means[:, inputs + 1 :].T, OUT_BIAS: bias}
        popular = np.argsort(-found.atoms.counts, kind="stable")[:width]
        return Server(
            weights=padded(weights, config.max_neurons),
            used=torch.full_like(server.used, len(means)),
            popular=torch.from_numpy(popular).to(server.popular),
            assignment=server.assignment.index_copy(0, known, torch.from_numpy(found.assignment).to(known)),
            uploads=uploads,
            counts=counts,
        )

    def match(networks: Params, shares: Array, assignment: Tensor, orders: list[list[int]]) -> Matching:
        """Global neurons of stacked networks, from an assignment."""
        old = assignment.to("cpu").numpy()
        vectors = _numbers(torch.cat([networks[IN], networks[BIAS].unsqueeze(2), networks[OUT].mT], 2))
        classes, size = shares.shape[1], vectors.shape[2]
        precisions = np.hstack([np.ones((len(shares), size - classes)), shares]) / config.s
        mean = np.zeros(size)
        mean[size - classes - 1] = config.mu0_bias
        prior = Prior(mean, np.full(size, 1 / config.s0), config.gamma, config.popularity, config.count_cap)
        # Who has an assignment already does not need the pass that gives the others their first one.
        orders = [[row for row in orders[0] if old[row, 0] < 0], *orders[1:]]
        return matched(Neurons(vectors, precisions), old, orders, prior, config.max_neurons)

    def output_bias(networks: Params, shares: Array) -> Array:
        """Posterior mean of the output biases, which have no order to be found."""
        weighted = (shares / config.s * _numbers(networks[OUT_BIAS])).sum(0) + config.mu0_bias / config.s0
        mean: Array = weighted / (shares.sum(0) / config.s + 1 / config.s0)
        return mean

    def orders_of(ids: Tensor, known: Tensor, counts: Tensor, key: Key) -> list[list[int]]:
        """Orders of this round's clients, as rows of `known`: one for first matchings, and one for each sweep."""
        sorted_ids = ids[torch.from_numpy(np.lexsort(_numbers(counts[ids]).T)).to(ids)]
        rows, stream = torch.searchsorted(known, sorted_ids).to("cpu"), rng.generator(key)
        return [rows[torch.randperm(len(rows), generator=stream)].tolist() for _ in range(1 + config.sweeps)]

    def models(work: Work) -> dict[str, Params]:
        return {"pm": work.weights}

    return Method(
        init=init,
        join=join,
        send=send,
        train=Visit(begin, (Phase(step),), end),
        merge=merge,
        adapt=Visit(begin, (), models),
        newcomer=Visit(begin, (Phase(step),), models),
        common=lambda server: server.weights,
        predict=lambda weights, x, key: probabilities(network, weights, x),
    )


def padded(weights: Params, width: int) -> Params:
    """A network with neurons that do nothing, up to a width."""
    more = width - len(weights[BIAS])
    pads = {IN: (0, 0, 0, more), BIAS: (0, more), OUT: (0, more), OUT_BIAS: (0, 0)}
    return {name: torch.nn.functional.pad(weights[name], pads[name]) for name in pads}


def columns(weights: Params, places: Tensor) -> Params:
    """The network of some hidden neurons."""
    return {
        IN: weights[IN][places],
        BIAS: weights[BIAS][places],
        OUT: weights[OUT][:, places],
        OUT_BIAS: weights[OUT_BIAS],
    }


def _hidden_width(config: Config, network: Network) -> int:
    """Neurons of a client's hidden layer; refuses networks that cannot be matched."""
    if network.layers != LAYERS or network.kind != "dense":
        raise ConfigError(
            f"method pfnm: network: found kind {network.kind!r} with layers {', '.join(network.layers)}; expected a "
            f"perceptron with one hidden layer (kind 'dense', layers {', '.join(LAYERS)}), whose neurons can be matched"
        )
    width = len(network.init(torch.Generator().manual_seed(0))[BIAS])
    if config.max_neurons < width:
        raise ConfigError(
            f"method pfnm: max_neurons: found {config.max_neurons}; expected at least {width}, the width of a client's "
            f"hidden layer"
        )
    return width


def _shares(counts: Tensor) -> Array:
    """Each client's share of all samples of a class, `[client, class]`; 0 where nobody has any."""
    numbers = _numbers(counts)
    shares: Array = numbers / np.maximum(numbers.sum(0), 1)
    return shares


def _numbers(tensor: Tensor) -> Array:
    found: Array = exact(tensor).cpu().numpy()
    return found
