"""Every method in `methods/` keeps the contract; a new file is tested the moment it exists."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import yaml

import fedbayes.methods
import toy
from agreement import assert_same
from artefacts import ROOT
from fedbayes.evaluation.evaluate import predict_gm, predict_pm
from fedbayes.federation import trees
from fedbayes.federation.contract import Method, Visit
from fedbayes.federation.loop import Federation, State, rounds, start
from fedbayes.federation.protocols import under_protocol
from plain_fedavg import fedavg
from toy import after

METHODS = sorted(module.name for module in pkgutil.iter_modules(fedbayes.methods.__path__))


def presets(method: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / f"config/methods/{method}.yaml").read_text())["presets"]
    return found


CASES = [(method, preset) for method in METHODS for preset in presets(method)]
# Algorithm 2 goes on to the local optimum and 20 times 5 steps are a visit of FedSOUL: these laws do not wait for that.
SHORTER: dict[tuple[str, str], dict[str, Any]] = {
    ("selffl", "algorithm-2"): {"converge_steps": 60},
    ("selffl", "synthetic"): {"max_steps": 60},
    ("fedpop", "bpfed"): {"steps": 3, "inner_steps": 2},
    ("fedpop", "mended"): {"steps": 3, "inner_steps": 2},
}
# The server adds up clients in another order; Adam makes more of the last digit where a gradient is nearly 0.
ROUNDING = 1e-6
# Noise is keyed by a client's number, which a permutation changes: without it the law is about the method alone.
WITHOUT_NOISE: dict[str, dict[str, Any]] = {
    "pfedbayes": {"noise_std": 0.0},
    "feduab": {"noise_bound": 0.0},
    "bpfed": {"noise_std": 0.0},
    "lrbpfl": {"noise_std": 0.0, "initial_mu_std": 0.0, "initial_rho_std": 0.0},
    "fedbe": {"samples": 0},
    "fedpop": {"noise_std": 0.0},
    "fedper": {"private_start": "common"},
    # Embeddings are drawn for a client's number as noise is.
    "metavd": {"noise_std": 0.0, "embedding_std": 0.0},
    "pfnm": {"start": "common"},
}
# Methods that cannot do without noise: there every client has the same instead.
SAME_NOISE = {"pfedgp"}


def toy_run(method: str, preset: str, fields: dict[str, Any] | None = None, **changes: Any) -> Federation:
    """A toy federation under a preset, with some of its fields and some of the toy's settings changed."""
    return toy.federation(
        method, presets(method)[preset] | SHORTER.get((method, preset), {}) | (fields or {}), **changes
    )


def bits(state: State) -> list[bytes]:
    return [leaf.numpy().tobytes() for leaf in trees.leaves(state)]


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_same_seed_same_bytes_other_seed_other_bytes(method: str, preset: str) -> None:
    one, again, other = (after(toy_run(method, preset, seed=s), 2) for s in (0, 0, 1))
    assert bits(one) == bits(again) != bits(other)


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_chunks_and_kinds_of_lifting(method: str, preset: str) -> None:
    whole = after(toy_run(method, preset, dtype=torch.float32), 2)
    assert bits(whole) == bits(after(toy_run(method, preset, dtype=torch.float32, chunk=2), 2))
    one, other = (after(toy_run(method, preset, lift=lift), 2) for lift in ("vmap", "loop"))
    for a, b in zip(trees.leaves(one), trees.leaves(other), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_inputs_are_not_changed_in_place(method: str, preset: str) -> None:
    # Equal clients of whole batches: what a step sees are views of the dataset.
    federation = toy_run(method, preset, sizes=(8, 8, 8))
    state, inputs = start(federation), federation.data.inputs.clone()
    before = bits(state)
    after_one = next(rounds(federation, state, 1))[0]
    assert bits(state) == before
    assert torch.equal(federation.data.inputs, inputs)
    assert bits(after_one) != before


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_resumed_equals_uninterrupted(method: str, preset: str) -> None:
    federation = toy_run(method, preset, clients_per_round=2)
    resumed = after(federation, 4, trees.rebuild(start(federation), trees.named(after(federation, 2))))
    assert bits(resumed) == bits(after(federation, 4))


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_a_round_changes_no_type_and_no_shape(method: str, preset: str) -> None:
    # A checkpoint is read back into the state of the start.
    federation = toy_run(method, preset, dtype=torch.float32)
    before, later = (trees.named(state) for state in (start(federation), after(federation, 1)))
    assert {n: (t.dtype, t.shape) for n, t in before.items()} == {n: (t.dtype, t.shape) for n, t in later.items()}


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_predictions_are_probabilities(method: str, preset: str) -> None:
    federation = toy_run(method, preset)
    state = after(federation, 1)
    for found in (predict_pm(federation, state), predict_gm(federation, state)):
        if found is not None:
            assert found.probs.shape == (15, toy.CLASSES)
            torch.testing.assert_close(found.probs.sum(1), torch.ones(15, dtype=found.probs.dtype))


def with_the_same_noise(method: Method) -> Method:
    """The method with one key for all clients."""
    key = torch.tensor(0)

    def visit(own: Visit) -> Visit:
        phases = tuple(phase._replace(step=partial(keyed, phase.step)) for phase in own.phases)
        return own._replace(begin=partial(keyed, own.begin), phases=phases)

    def keyed(function: Callable[..., Any], *args: Any) -> Any:
        return function(*args[:-1], key)

    return method._replace(
        join=partial(keyed, method.join),
        train=visit(method.train),
        adapt=visit(method.adapt),
        newcomer=visit(method.newcomer),
        predict=partial(keyed, method.predict),
    )


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_permuting_clients_permutes_results(method: str, preset: str) -> None:
    order = (2, 0, 1)
    federation = toy_run(method, preset, WITHOUT_NOISE.get(method))
    if method in SAME_NOISE:
        federation = replace(federation, method=with_the_same_noise(federation.method))
    permuted = replace(federation, data=toy.resident(order=order))
    one, other = after(federation, 3), after(permuted, 3)
    ours, theirs = predict_pm(federation, one), predict_pm(permuted, other)
    for place, client in enumerate(order):
        torch.testing.assert_close(
            theirs.probs[theirs.clients == place], ours.probs[ours.clients == client], rtol=0, atol=ROUNDING
        )
    if federation.method.common is not None:
        assert_same(*(federation.method.common(state.server) for state in (other, one)), atol=ROUNDING)


# Methods whose personal or global model is plain SGD on all the data when one client has them, and what must be
# switched off for that. pFedMe and Per-FedAvg descend on other functions (with alpha = 0 each step of Per-FedAvg is on
# its second batch, see test_perfedavg.py), FedRep takes its parts in turn.
CENTRAL: dict[str, dict[str, Any]] = {
    "fedavg": {"lr": 0.1},
    "fedprox": {"lr": 0.1, "mu": 0.0},
    "ditto": {"lr": 0.1, "lam": 0.0},
    "local": {"lr": 0.1},
    "fedper": {"lr": 0.1, "private_start": "common"},
    "lgfedavg": {"lr": 0.1},
    "heurfedamp": {"lr": 0.1, "lam": 0.0},
    "fedamp": {"lr": 0.1, "lam": 0.0},
    "selffl": {"lr": 0.1, "gradient": "mean"},
    "metavd": {"lr": 0.1, "noise_std": 0.0, "beta": 0.0, "server_lr": 1.0, "momentum": 0.0},
}


@pytest.mark.parametrize("method", CENTRAL)
def test_one_client_with_all_the_data_is_central_training(method: str) -> None:
    federation = toy_run(method, "paper", CENTRAL[method], sizes=(23,))
    federation = replace(federation, method=under_protocol(federation.method, "trained"))
    plain = toy.federation(sizes=(23,))
    weights = fedavg(plain, start(plain).server.weights, 3, batch=4, steps=3, lr=0.1, momentum=0.0)
    assert_same(trees.take(after(federation, 3).clients.models["pm"], 0), weights)


@pytest.mark.parametrize("method", METHODS)
def test_the_docstring_has_its_parts(method: str) -> None:
    text = importlib.import_module(f"fedbayes.methods.{method}").__doc__ or ""
    for part in ("Paper:", "Idea:", "Notation:", "Deviations:", "Reduces to:"):
        assert part in text, f"methods/{method}.py: the module docstring has no '{part}'"
