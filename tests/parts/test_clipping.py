"""Gradients that are too long."""

from __future__ import annotations

import torch

from agreement import assert_same
from fedbayes.parts.clipping import clipped


def test_clipping_is_over_all_tensors_together() -> None:
    grads = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([[4.0]])}
    assert_same(clipped(grads, 10.0), grads, atol=0)
    assert_same(clipped(grads, 1.0), {"a": torch.tensor([0.6, 0.0]), "b": torch.tensor([[0.8]])}, atol=1e-6)
    assert_same(clipped({"a": torch.zeros(2)}, 1.0), {"a": torch.zeros(2)}, atol=0)
