r"""pFedGP (full data): one feature network for all, and at each client a Gaussian process classifier on its features.

Paper: Achituve, Shamsian, Navon, Chechik, Fetaya, "Personalized Federated Learning with Gaussian Processes", NeurIPS
2021, arXiv:2106.15482; the variant that conditions on all of a client's data, without inducing points.

Idea: only the feature network is learnt and travels. A client's classifier is a GP on its own data, so there are no
weights to be fitted to few samples. Many classes are a binary tree with one GP at each inner node. The network is
trained so that half of a client's data predicts the other half well.

Notation: features $z$, L2-normalised -> `embed`; tree -> `ClassTree`, whose left side is $y = 1$; $\omega$ -> `omega`;
$K$ -> `Rbf`; $f, \kappa, \Omega$ as in `bayes/gp_classifier.py`.

Deviations: [P] is the text, [C] IdanAchituve/pFedGP@38d833c, [D] ours where what we have of both is silent.
    1. The features are what the last layer before the experiment's head gives, without its activation as in [C]
       -> `embedding: linear`, or with it -> `activated`. So every network serves; the head has no use and is neither
       kept nor sent. [C] has an embedding of 84 behind two convolutions of its own.
    2. Probability of a node's left side: $E[\sigma(f_*)]$, the predictive integral [D]; [C] takes $\exp E[\log
       \sigma(f_*)]$, which is smaller, so that the right side gains -> `link`.
    3. The tree is made anew in every step, of all the client's data; [C] once a visit, which is the same with one inner
       step. 2-means begins at every pair of class means, not at random [D]; [C] begins 50 times. It sees normalised
       features [D].
    4. A step divides the data once, class by class, so that the first half is never the smaller; [C] divides anew at
       every node. A node whose classes have nobody in the second half adds no loss [D].
    5. The jitter is a part of the training samples' covariance and of nothing else [D].
    6. The loss is a mean over a node's samples, summed over nodes [C]. The gradient is clipped before the decay is
       added to it; biases decay, too; a visit begins without velocity [C].
    7. A client predicts its own classes only, the others have probability 0 [C]; with one class, that one. Without data
       all are equally likely [D].
    8. No best round by validation: the experiment's protocol decides what is reported.

Reduces to: with lr = 0, each client by itself, a GP classifier on the initial network's features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.class_tree import ClassTree, class_tree
from fedbayes.bayes.gp_classifier import Link, Rbf, gibbs, predict_latent, probability
from fedbayes.bayes.layers import plain
from fedbayes.config import MethodConfig
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Facts, Feed, Key, Method, Phase, Visit
from fedbayes.models.network import Network
from fedbayes.optim import OptimiserState, optimiser
from fedbayes.parts.average import Weighting
from fedbayes.parts.clipping import clipped
from fedbayes.parts.one_model import OneModel, Server
from fedbayes.parts.sharing import part, sharing
from fedbayes.parts.weights import Meter, dtype_of, new_meter
from fedbayes.reading import ConfigError
from fedbayes.tensors import Op, Params, exact

# Test samples that an evaluation predicts at once, for the estimate of its cost alone.
BLOCK = 500


class Config(MethodConfig):
    """Fields of pFedGP."""

    lr: float = Field(ge=0, description="Step size of local SGD on the network.")
    momentum: float = Field(ge=0, lt=1, description="Momentum of SGD, fresh at every visit.")
    weight_decay: float = Field(ge=0, description="L2 pull on all weights of the network.")
    clip: float = Field(gt=0, description="Longest gradient, all weights together.")
    inner_steps: PositiveInt = Field(description="Steps of a visit, each on all of a client's data.")
    output_scale: float = Field(gt=0, description="Variance of the kernel.")
    length_scale: float = Field(gt=0, description="Length scale of the kernel on normalised features.")
    jitter: float = Field(gt=0, description="Added to the diagonal of the samples' covariance.")
    sweeps: NonNegativeInt = Field(description="Gibbs sweeps of a chain.")
    chains: PositiveInt = Field(description="Chains of a node in training.")
    test_chains: PositiveInt = Field(description="Chains of a node in a test.")
    link: Link = Field(description="What is averaged over f: the probability, or its logarithm.")
    embedding: Literal["linear", "activated"] = Field(description="Features before the last activation, or behind it.")
    weighting: Weighting = Field(description="Weights of the mean: n_i / n, or 1 / S.")


class Client(NamedTuple):
    """A client keeps nothing between rounds but its data."""


class Data(NamedTuple):
    """All samples of a client as it last saw them; empty before that."""

    x: Tensor
    y: Tensor
    mask: Tensor


class Work(NamedTuple):
    """A visit in progress."""

    weights: Params
    velocity: OptimiserState
    data: Data
    counts: Tensor  # samples of each class
    key: Tensor  # of the chains that a test needs
    meter: Meter


class Model(NamedTuple):
    """What a personal prediction needs; samples are padded as they came, nodes to one less than there are classes."""

    weights: Params
    features: Tensor  # [sample, dim]
    y: Tensor  # [sample]
    mask: Tensor  # [sample]
    counts: Tensor  # [class]
    tree: ClassTree
    omega: Tensor  # [node, chain, sample]: 1 where a sample is not at a node


def build(config: Config, network: Network) -> Method:
    """The method for a network."""
    if len(network.layers) < 2:
        raise ConfigError(
            f"method pfedgp: network: found one with the single layer {network.layers[0]}; expected layers before the "
            "head, whose outputs are the GP's features"
        )
    whole = OneModel(network, config.weighting)
    body = sharing(network, tuple(network.init(torch.Generator().manual_seed(0))), "body").shared
    descent = optimiser("sgd", config.lr, config.momentum)
    kernel = Rbf(config.output_scale, config.length_scale, config.jitter)

    def init(key: Key, population: int) -> Server:
        return Server(part(whole.init(key, population).weights, body))

    def join(server: Server, facts: Facts, key: Key) -> Client:
        return Client()

    def embed(weights: Params, x: Tensor) -> Tensor:
        """Normalised features, `[sample, dim]`."""
        below = plain(weights)
        before: Params = {}

        def layer(name: str, op: Op, inputs: Tensor) -> Tensor:
            if name == network.layers[-1]:
                return before["last"].flatten(1) if config.embedding == "linear" else inputs
            before["last"] = below(name, op, inputs)
            return before["last"]

        return F.normalize(network.apply(layer, x), dim=-1)

    def begin(down: Params, client: Client, facts: Facts, key: Key) -> Work:
        dtype, device = dtype_of(down), facts.size.device
        unseen = Data(*(torch.zeros(0, dtype=kind, device=device) for kind in (dtype, torch.int64, dtype)))
        return Work(down, descent.start(down), unseen, facts.counts, key, new_meter(facts, dtype))

    def look(work: Work, batch: Batch, key: Key) -> Work:
        """All that a test needs of a visit: the data."""
        return work._replace(data=Data(*batch))

    def step(work: Work, batch: Batch, key: Key) -> Work:
        """One SGD step on the cross-entropy of one half of the data given the other."""
        real = batch.mask > 0
        x, y = batch.x[real], batch.y[real]
        grads, loss = grad_and_value(predictive_loss)(work.weights, x, y, len(work.counts), key)
        short = clipped(grads, config.clip)
        turned = {name: g + config.weight_decay * work.weights[name] for name, g in short.items()}
        weights, velocity = descent.step(work.weights, turned, work.velocity)
        return look(work, batch, key)._replace(weights=weights, velocity=velocity, meter=work.meter.add(loss))

    def predictive_loss(weights: Params, x: Tensor, y: Tensor, classes: int, key: Key) -> Tensor:
        """Cross-entropy of the second half at every node of the tree, given the first half."""
        features = embed(weights, x)
        if not features.isfinite().all():
            return features.sum()
        tree = class_tree(features.detach(), y, classes)
        second = second_half(y, classes, rng.generator(rng.fold(key, 0)))
        # A sum that is 0, so that a client of one class has a loss with a gradient, too.
        total = 0 * features.sum()
        for node in tree.inner:
            at = at_node(tree, node, y)
            known, asked = at & ~second, at & second
            if not asked.any():
                continue
            side = tree.left[node][y]
            covariance = kernel.within(features[known])
            with torch.no_grad():
                omega = gibbs(covariance, side[known], config.chains, config.sweeps, chain_stream(key, node))
            cross = kernel.between(features[known], features[asked])
            left = left_probability(covariance, cross, side[known], omega)
            total = total + F.binary_cross_entropy(left, side[asked].to(left.dtype))
        return total

    def left_probability(covariance: Tensor, cross: Tensor, side: Tensor, omega: Tensor) -> Tensor:
        found = probability(predict_latent(covariance, cross, kernel.output_scale, side, omega), config.link)
        rounding = torch.finfo(found.dtype).eps
        return found.clamp(rounding, 1 - rounding)

    def models(work: Work) -> dict[str, Model]:
        """The tree and the chains on all of a client's data."""
        x, y, mask = work.data
        if len(mask) == 0 and work.counts.any():
            raise ConfigError(
                "method pfedgp: protocol.personal: found a protocol that tests a client before it has looked at its "
                "data, or what an earlier visit left; expected none, fine-tuned or adapted, as a GP is made of its data"
            )
        real = mask > 0
        features = embed(work.weights, x) if len(mask) else work.data.x[:, None]
        tree = class_tree(features[real], y[real], len(work.counts))
        omega = features.new_ones(len(tree.left), config.test_chains, len(mask))
        # A network that has diverged is tested all the same, and predicts nothing: there is no chain to run.
        for node in tree.inner if features.isfinite().all() else ():
            own = real & at_node(tree, node, y)
            side, covariance = tree.left[node][y[own]], kernel.within(features[own])
            omega[node][:, own] = gibbs(
                covariance, side, config.test_chains, config.sweeps, chain_stream(work.key, node)
            )
        return {"pm": Model(work.weights, features, y, mask, work.counts, tree, omega)}

    def predict(model: Model, x: Tensor, key: Key) -> Tensor:
        """Products along the paths of the tree."""
        features = embed(model.weights, x)
        if not (features.isfinite().all() and model.features.isfinite().all()):
            return features.new_full((1, len(features), len(model.counts)), torch.nan)
        # The root's share is divided among the classes that the client has; without data all have the same.
        known = (model.counts > 0).to(features.dtype)
        start = known if model.counts.any() else torch.full_like(known, 1 / len(known))
        found = start.repeat(len(features), 1)
        for node in model.tree.inner:
            own = (model.mask > 0) & at_node(model.tree, node, model.y)
            samples, side = model.features[own], model.tree.left[node][model.y[own]]
            covariance, cross = kernel.within(samples), kernel.between(samples, features)
            left = left_probability(covariance, cross, side, model.omega[node][:, own])[:, None]
            found = torch.where(model.tree.left[node], found * left, found)
            found = torch.where(model.tree.right[node], found * (1 - left), found)
        return found.unsqueeze(0)

    def end(work: Work) -> tuple[Client, Params, dict[str, Tensor]]:
        return Client(), work.weights, work.meter.info()

    def notice(sizes: Tensor, tests: Tensor, clients_per_round: int) -> str:
        """What the cubes cost, for balanced trees, where all nodes below the root cost a third of it.

        A sweep factorises one matrix, n^3 / 3; a prediction with its gradient takes about 4 n^3. In training both are
        on half of the samples. A test factorises once more for each block of test samples, and solves n^2 for each of
        them: at the root, and for half as many samples at the nodes below it.
        """
        sizes, tests = exact(sizes), exact(tests)
        cubes, largest = sizes**3, int(sizes.max())
        trained = config.inner_steps * config.chains * (config.sweeps / 3 + 4) / 8 * 4 / 3
        blocks = (tests / BLOCK).ceil()
        tested = config.test_chains * (cubes * (config.sweeps + blocks) / 3 * 4 / 3 + sizes**2 * tests * 3 / 2)
        return (
            f"pFedGP factorises covariances of all of a client's samples: the largest client has n = {largest}, "
            f"n^3 = {float(largest) ** 3:.1e}; a round of {clients_per_round} clients takes about "
            f"{clients_per_round * trained * float(cubes.mean()):.0e} floating point operations, a test of all "
            f"{len(sizes)} about {float(tested.sum()):.0e}"
        )

    conditioned = Visit(begin, (Phase(look, _whole(1)),), models)
    return Method(
        init=init,
        join=join,
        send=whole.send,
        train=Visit(begin, (Phase(step, _whole(config.inner_steps)),), end),
        merge=whole.merge,
        adapt=conditioned,
        newcomer=conditioned,
        common=None,
        predict=predict,
        traceable=False,
        freezes_shared=True,
        stored=stored,
        notice=notice,
    )


def stored(model: Model) -> tuple[Params, Tensor, Tensor]:
    """Network, features and labels: tree and chains are made of them anew wherever a test needs them."""
    real = model.mask > 0
    return model.weights, model.features[real], model.y[real]


def second_half(y: Tensor, classes: int, stream: torch.Generator) -> Tensor:
    """Which samples are to be predicted: half of each class at random, rounded down."""
    chosen = torch.zeros(len(y), dtype=torch.bool, device=y.device)
    for label in range(classes):
        own = (y == label).nonzero().squeeze(1)
        order = torch.randperm(len(own), generator=stream).to(y.device)
        chosen[own[order[: len(own) // 2]]] = True
    return chosen


def at_node(tree: ClassTree, node: int, y: Tensor) -> Tensor:
    """Which samples have a class of an inner node."""
    return (tree.left[node] | tree.right[node])[y]


def chain_stream(key: Key, node: int) -> torch.Generator:
    """Random numbers of a node's chains."""
    return rng.generator(rng.fold(key, 1, node))


def _whole(steps: int) -> Callable[[Feed], Feed]:
    """A feed of so many steps on all of a client's data."""
    return lambda feed: feed._replace(order="full", amount=steps, unit="batches")
