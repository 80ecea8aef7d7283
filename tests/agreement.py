"""Comparing a method's state with what a plain loop gives."""

from __future__ import annotations

from typing import Any

import torch
import yaml

from artefacts import ROOT
from fedbayes.federation import trees

EXACT = 1e-11


def preset(method: str, name: str, **changes: Any) -> dict[str, Any]:
    """A preset of `config/methods/`, with changes."""
    values: dict[str, Any] = yaml.safe_load((ROOT / f"config/methods/{method}.yaml").read_text())["presets"][name]
    return values | changes


def assert_same(found: Any, expected: Any, atol: float = EXACT) -> None:
    """Trees of tensors that agree in every number."""
    for a, b in zip(trees.leaves(found), trees.leaves(expected), strict=True):
        torch.testing.assert_close(a, b.to(a.dtype), rtol=0, atol=atol)


def assert_clients(found: Any, expected: list[Any], atol: float = EXACT) -> None:
    """Stacked trees that agree with one tree a client."""
    for number, own in enumerate(expected):
        assert_same(trees.take(found, number), own, atol)
