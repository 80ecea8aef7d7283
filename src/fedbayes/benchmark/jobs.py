"""A setting made ready: the same work by the engine and by the plain loop, on synthetic data of the right shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedbayes.benchmark import plain
from fedbayes.benchmark.settings import CLASSES, FEDAVG, NETWORKS, PFEDBAYES, SHAPES, Setting
from fedbayes.evaluation.evaluate import predict_pm
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Facts, Feed, Key, Method, Server, Visit
from fedbayes.federation.inputs import normalise
from fedbayes.federation.lifting import Lifting, choose_lift, has_compiler
from fedbayes.federation.loop import Federation, State, rounds, start
from fedbayes.federation.resident import Resident, lay_out
from fedbayes.methods import load_method
from fedbayes.models import load_network
from fedbayes.models.network import Network
from fedbayes.tensors import Params


class Job(NamedTuple):
    """Both ways to do one repeat of a setting; each returns what it computed."""

    ours: Callable[[], Params]
    plain: Callable[[], Params]
    lifting: Lifting


def build(setting: Setting, noise: plain.Noise | None = None) -> Job:
    """A job ready to run.

    Args:
        setting: what to run.
        noise: where the plain pFedBayes takes its noise from, instead of PyTorch's generator.
    """
    federation = federate(setting)
    state = start(federation)
    makers = {"fedavg": _fedavg, "pfedbayes": _pfedbayes, "evaluation": _evaluation}
    ours, theirs = makers[setting.work](setting, federation, state, noise or plain.fresh_noise)
    return Job(ours, theirs, federation.lifting)


def federate(setting: Setting) -> Federation:
    """The engine's side of a setting."""
    network = load_network(setting.network, NETWORKS[setting.network], SHAPES[setting.network], CLASSES)
    init = network.init
    network = network._replace(init=lambda stream: {name: w.to(setting.dtype) for name, w in init(stream).items()})
    method = _method(setting, network)
    lift = choose_lift(method, network.kind, torch.device("cpu"))
    return Federation(
        method=method,
        data=synthetic(setting),
        feed=Feed(setting.batch, setting.steps),
        seed=0,
        clients_per_round=setting.clients,
        trains="selected",
        lifting=Lifting(lift, setting.compiled and lift == "vmap" and has_compiler(), setting.chunk),
    )


def synthetic(setting: Setting) -> Resident:
    """Random bytes with random labels; a client trains and tests on its own samples."""
    total, stream = setting.clients * setting.samples, np.random.default_rng(0)
    images = stream.integers(256, size=(total, *SHAPES[setting.network]), dtype=np.uint8)
    own = np.split(stream.permutation(total), setting.clients)
    labels, half = stream.integers(CLASSES, size=total), [0.5] * images.shape[1]
    prepare = normalise(half, half, setting.dtype)
    return lay_out(images, labels, own, own, CLASSES, prepare, torch.device("cpu"))


def _method(setting: Setting, network: Network) -> Method:
    if setting.work == "pfedbayes":
        return load_method("pfedbayes", PFEDBAYES, network)
    method = load_method("fedavg", FEDAVG, network)
    return _with_personal_models(method, network) if setting.work == "evaluation" else method


def _with_personal_models(method: Method, network: Network) -> Method:
    """FedAvg whose clients hold weights of their own, and test them as they are."""

    def join(server: Server, facts: Facts, key: Key) -> Params:
        return network.init(rng.generator(key))

    def begin(down: Params, client: Params, facts: Facts, key: Key) -> Params:
        return client

    return method._replace(join=join, adapt=Visit(begin, (), lambda weights: {"pm": weights}))


def _after(federation: Federation, state: State, count: int) -> Any:
    """What the server holds after some rounds."""
    for new, _ in rounds(federation, state, count):
        state = new
    return state.server


Pair = tuple[Callable[[], Params], Callable[[], Params]]


def _fedavg(setting: Setting, federation: Federation, state: State, noise: plain.Noise) -> Pair:
    weights, shares = state.server.weights, _shares(federation)
    batches = plain.batches(federation.data, setting.batch)
    net = plain.module(setting.network, weights)

    def ours() -> Params:
        trained: Params = _after(federation, state, setting.rounds).weights
        return trained

    def theirs() -> Params:
        return plain.fedavg(net, weights, batches, shares, setting.rounds, setting.steps, FEDAVG["lr"])

    return ours, theirs


def _pfedbayes(setting: Setting, federation: Federation, state: State, noise: plain.Noise) -> Pair:
    world, shares = state.server.world, _shares(federation)
    batches = plain.batches(federation.data, setting.batch)

    def ours() -> Params:
        trained: Params = _after(federation, state, setting.rounds).world._asdict()
        return trained

    def theirs() -> Params:
        return plain.pfedbayes(world, batches, shares, setting.rounds, setting.steps, PFEDBAYES, noise)

    return ours, theirs


def _evaluation(setting: Setting, federation: Federation, state: State, noise: plain.Noise) -> Pair:
    personal = [trees.take(state.clients, i) for i in range(setting.clients)]
    nets = [plain.module(setting.network, weights) for weights in personal]
    images = [x for ((x, _),) in plain.batches(federation.data, setting.samples)]

    def ours() -> Params:
        return {f"probs{i}": predict_pm(federation, state).probs for i in range(setting.rounds)}

    def theirs() -> Params:
        return {f"probs{i}": plain.probabilities(nets, images) for i in range(setting.rounds)}

    return ours, theirs


def _shares(federation: Federation) -> list[float]:
    sizes: Tensor = federation.data.train.sizes
    return (sizes.double() / sizes.sum()).tolist()
