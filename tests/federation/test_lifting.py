"""Ways to lift: the written rules, and compiled steps against eager ones."""

from __future__ import annotations

import pytest
import torch
import yaml

import toy
from artefacts import ROOT
from fedbayes.federation import lifting, trees
from fedbayes.federation.lifting import COMPILE_FROM_STEPS, choose_compiled, choose_lift, has_compiler

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
@pytest.mark.parametrize("method", ["fedavg", "pfedbayes"])
def test_compiled_agrees_with_eager_and_chunks_change_no_bit(method: str) -> None:
    preset = yaml.safe_load((ROOT / f"config/methods/{method}.yaml").read_text())["presets"]["reference"]
    sizes = (7, 12, 4, 9, 5)
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
