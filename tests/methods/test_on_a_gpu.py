"""Every method trains and predicts on a device that is not the CPU, and no step of it waits for the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from test_contract import CASES, METHODS, WITHOUT_NOISE, toy_run
from torch import Tensor

import toy
from fedbayes import tensors
from fedbayes.evaluation.evaluate import predict_all, scores
from fedbayes.federation import cohort, trees
from fedbayes.federation.contract import Batch, Feed, Method, Phase
from fedbayes.federation.lifting import Function, Lift, Lifting
from fedbayes.federation.loop import Federation
from fedbayes.federation.resident import Shards
from fedbayes.methods import load_method
from fedbayes.models import load_network
from pretend_gpu import GPU, NoFloat64, PretendGpu, TwoDevices, Waits

# Methods that wait for the host by their nature, and why.
WAITING = {
    "pfedgp": "its tree of classes has as many nodes as a client has classes, and draws of Polya-Gamma variables are "
    "repeated until they are accepted: both are decided by numbers",
}


class Watched(Lifting):
    """Lifting under which predictions and steps are hot, and what the engine does between two steps.

    What begins and ends a visit may look up what it needs, and so may a look at whether a phase is done.
    """

    def step(self, function: Function) -> Function:
        once = super().step(function)

        def run(*args: Any) -> Any:
            PretendGpu.active().is_hot = True  # until `leave`, after the last step or before a look
            return once(*args)

        return run

    def leave(self, tree: Any) -> Any:
        PretendGpu.active().is_hot = False
        return super().leave(tree)

    def over(self, function: Function, in_dims: int | tuple[int | None, ...] = 0) -> Function:
        # Only predictions say of each argument whether it is the client's own.
        lifted = super().over(function, in_dims)
        return _hot(lifted) if isinstance(in_dims, tuple) else lifted


def _hot(function: Function) -> Function:
    def run(*args: Any) -> Any:
        with PretendGpu.active().hot():
            return function(*args)

    return run


def on_gpu(federation: Federation, lifting: type[Lifting] = Watched) -> Federation:
    """The same with its data on the GPU."""
    data = federation.data
    moved: dict[str, Any] = {name: getattr(data, name).to(GPU) for name in ("inputs", "labels", "places", "server")}
    moved |= {name: Shards(*(part.to(GPU) for part in getattr(data, name))) for name in ("train", "test")}
    return replace(federation, data=replace(data, **moved), lifting=lifting(federation.lifting.kind))


def found_by(federation: Federation, count: int = 1) -> tuple[list[Tensor], dict[str, float]]:
    """The state after some rounds, and a score of every model that the method has then."""
    state = toy.after(federation, count)
    predicted = predict_all(federation, state)
    return [leaf.cpu() for leaf in trees.leaves(state)], {
        name: scores(own, range(len(toy.SIZES)))["nll"].pooled for name, own in predicted.items()
    }


def lifting_of(method: str) -> type[Lifting]:
    return Lifting if method in WAITING else Watched


@pytest.mark.parametrize(("method", "preset"), CASES)
def test_no_step_waits_for_the_host(method: str, preset: str) -> None:
    # Training, adaptation before a test, a newcomer's first visit, predictions.
    federation = replace(toy_run(method, preset, clients_per_round=2), newcomers=(2,))
    with PretendGpu():
        state, losses = found_by(on_gpu(federation, lifting_of(method)))
    assert losses and all(leaf.isfinite().all() for leaf in state)


@pytest.mark.parametrize("lift", ["vmap", "loop"])
@pytest.mark.parametrize("method", METHODS)
def test_numbers_are_those_of_the_cpu(method: str, lift: Lift) -> None:
    # Without noise, which a GPU draws in another way.
    federation = toy_run(method, "paper", WITHOUT_NOISE.get(method), lift=lift, clients_per_round=2, trains="all")
    with PretendGpu():
        state, losses = found_by(on_gpu(federation, lifting_of(method)))
    expected_state, expected_losses = found_by(federation)
    torch.testing.assert_close(state, expected_state, rtol=0, atol=1e-9)
    assert losses == pytest.approx(expected_losses)


@pytest.mark.parametrize("method", WAITING)
def test_what_is_said_to_wait_does(method: str) -> None:
    with PretendGpu(), pytest.raises(Waits):
        found_by(on_gpu(toy_run(method, "paper")))


# Methods whose steps multiply numbers of a device by constants in float64; `config/README.md` names them.
IN_FLOAT64 = {"fedpop", "feduab", "lrbpfl", "pfnm"}


@pytest.mark.parametrize("method", METHODS)
def test_a_device_without_float64_will_do(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "COARSE", {GPU.type})
    federation = toy_run(method, "paper", dtype=torch.float32, clients_per_round=2)
    federation = replace(federation, data=replace(federation.data, inputs=federation.data.inputs.float()))
    refused = pytest.raises(TypeError) if method in IN_FLOAT64 else nullcontext()
    with PretendGpu(float64=False), refused:
        state, losses = found_by(on_gpu(federation, Lifting))
        assert losses and all(leaf.isfinite().all() for leaf in state)


def test_one_without_float64_refuses_it() -> None:
    with PretendGpu(float64=False), pytest.raises(NoFloat64):
        torch.ones(2, device=GPU).double()


@pytest.mark.parametrize("order", ["cyclic", "shuffled", "iid", "full"])
def test_every_order_of_batches_runs(order: Any) -> None:
    federation = toy.federation(feed=Feed(4, 2, "epochs", order), sizes=(8, 8, 8))
    with PretendGpu():
        state, _ = found_by(on_gpu(federation))
    torch.testing.assert_close(state, found_by(federation)[0], rtol=0, atol=1e-12)


NETWORKS = {
    "cnn": ({"channels": (2,), "pooled": (True,), "hidden": (3,)}, torch.ones(2, 3, 1, 6, 6)),
    "textcnn": ({"vocabulary": 9, "vector": 4, "widths": (2, 3), "channels": 2}, torch.arange(30).view(2, 3, 5) % 9),
    "lstm": ({"hidden": 3, "depth": 2}, torch.ones(2, 3, 4, 2)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_stays_where_it_is(name: str) -> None:
    fields, x = NETWORKS[name]
    method = load_method("fedavg", toy.FEDAVG, load_network(name, fields, tuple(x.shape[2:]), toy.CLASSES))
    weights = method.init(torch.tensor(0), 2).weights

    def predicted(device: torch.device) -> Tensor:
        there, inputs = trees.to_device(weights, device), x.to(device)
        with PretendGpu.active().hot():
            return torch.vmap(method.predict, in_dims=(None, 0, None))(there, inputs, None)

    with PretendGpu():
        found = [predicted(device).cpu() for device in (GPU, torch.device("cpu"))]
    torch.testing.assert_close(*found)


MISTAKES: dict[str, tuple[type[Exception], Callable[[Tensor], Tensor | float]]] = {
    "a look at the numbers": (Waits, lambda x: x.sum().item()),
    "a list": (Waits, lambda x: sum(x.flatten().tolist())),
    "a condition": (Waits, lambda x: 1.0 if (x > 0).any() else 0.0),
    "there and back": (Waits, lambda x: x.cpu().sum().to(x.device)),
    "a mask for an index": (Waits, lambda x: x[x > 0].sum()),
    "a constant that is sent": (Waits, lambda x: torch.tensor([1.0, 2.0], dtype=x.dtype, device=x.device).sum()),
    "a constant on the CPU": (TwoDevices, lambda x: (x * torch.ones(2, dtype=x.dtype)).sum()),
    "a place on the CPU": (TwoDevices, lambda x: x[torch.arange(2)].sum()),
    "the CPU's random numbers": (
        TwoDevices, lambda x: torch.randn((), generator=torch.Generator(), dtype=x.dtype, device=x.device)
    ),
}  # fmt: skip


def spoilt(method: Method, mistake: Callable[[Tensor], Tensor | float], where: str) -> Method:
    """The method with a mistake in its steps or in its predictions."""

    def step(work: Any, batch: Batch, key: Any) -> Any:
        new = method.train.phases[0].step(work, batch, key)
        return new._replace(meter=new.meter.add(0 * mistake(batch.x)))

    if where == "step":
        return method._replace(train=method.train._replace(phases=(Phase(step),)))
    return method._replace(predict=lambda model, x, key: method.predict(model, x, key) + 0 * mistake(x))


@pytest.mark.parametrize("where", ["step", "prediction"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str, where: str) -> None:
    error, made = MISTAKES[mistake]
    federation = toy.federation(lift="loop")
    federation = replace(federation, method=spoilt(federation.method, made, where))
    with PretendGpu(), pytest.raises(error):
        found_by(on_gpu(federation))


@pytest.mark.parametrize("lift", ["vmap", "loop"])
def test_a_batch_that_comes_by_way_of_the_host_is_found(lift: Lift, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = cohort._inputs

    def detour(*args: Any) -> Callable[[int], Tensor]:
        inputs = gathered(*args)
        return lambda t: inputs(t).cpu().to(GPU)

    monkeypatch.setattr(cohort, "_inputs", detour)
    with PretendGpu(), pytest.raises(Waits):
        found_by(on_gpu(toy.federation(lift=lift)))
