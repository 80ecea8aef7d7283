"""Ways to lift: the written rules, and compiled steps against eager ones."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
import yaml
from torch import Tensor

import toy
from artefacts import ROOT
from fedbayes.federation import lifting, trees
from fedbayes.federation.cohort import Guests, visit_all
from fedbayes.federation.contract import Batch, Facts, Feed, Phase, Visit
from fedbayes.federation.lifting import COMPILE_FROM_STEPS, Lifting, choose_compiled, choose_lift, has_compiler

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_the_rule_for_lifting() -> None:
    method = toy.federation().method
    assert choose_lift(method, "dense", CPU) == "vmap"
    assert choose_lift(method, "conv", CPU) == "loop" and choose_lift(method, "conv", GPU) == "vmap"
    assert choose_lift(method, "recurrent", GPU) == "loop"
    assert choose_lift(method._replace(traceable=False), "dense", CPU) == "loop"


def test_the_rule_for_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifting, "has_compiler", lambda: True)
    assert choose_compiled("vmap", COMPILE_FROM_STEPS, CPU)
    assert not choose_compiled("vmap", COMPILE_FROM_STEPS - 1, CPU)
    assert not choose_compiled("loop", COMPILE_FROM_STEPS, CPU)
    monkeypatch.setattr(lifting, "has_compiler", lambda: False)
    assert not choose_compiled("vmap", COMPILE_FROM_STEPS, CPU)


@pytest.mark.slow
@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler on this machine")
@pytest.mark.parametrize(
    ("method", "sizes"), [("fedavg", (7, 12, 4, 9, 5)), ("fedavg", (8,) * 4), ("pfedbayes", (8,) * 5)]
)
def test_compiled_agrees_with_eager_and_chunks_change_no_bit(method: str, sizes: tuple[int, ...]) -> None:
    preset = yaml.safe_load((ROOT / f"config/methods/{method}.yaml").read_text())["presets"]["reference"]
    eager = toy.after(toy.federation(method, preset, sizes=sizes), 3)
    compiled = toy.after(toy.federation(method, preset, sizes=sizes, compiled=True), 3)
    for a, b in zip(trees.leaves(eager), trees.leaves(compiled), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
    whole, parts = (
        toy.after(toy.federation(method, preset, sizes=sizes, compiled=True, dtype=torch.float32, chunk=chunk), 2)
        for chunk in (None, 2)
    )
    for a, b in zip(trees.leaves(whole), trees.leaves(parts), strict=True):
        assert torch.equal(a, b)


class Twice(NamedTuple):
    """Weights, and where the second phase began with them."""

    weights: Tensor
    begun: Tensor


@pytest.mark.slow
@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler on this machine")
def test_one_tensor_in_two_places_is_not_taken_for_one_ever_after() -> None:
    def begin(down: Tensor, client: Tensor, facts: Facts, key: Tensor) -> Twice:
        return Twice(down, down)

    def walk(work: Twice, batch: Batch, key: Tensor) -> Twice:
        moved = work.weights + 0.1 * batch.x.mean()
        return Twice(moved, moved)

    def pull(work: Twice, batch: Batch, key: Tensor) -> Twice:
        return Twice(work.weights - 0.3 * (work.weights - work.begun) + 0.1 * batch.x.mean(), work.begun)

    visit, data = Visit(begin, (Phase(walk), Phase(pull)), lambda work: work), toy.resident((8, 8))
    guests = Guests(torch.arange(2), torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, 0), torch.zeros(2).long())
    eager, compiled = (
        visit_all(visit, guests, data, Feed(4, 3), torch.tensor(1), 0, Lifting("vmap", compiled)).out
        for compiled in (False, True)
    )
    torch.testing.assert_close(compiled, eager, rtol=0, atol=1e-12)
