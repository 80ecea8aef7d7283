"""Trees as named tensors: there and back, and refusals."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from fedbayes.federation import trees


class Pair(NamedTuple):
    weights: dict[str, torch.Tensor]
    count: torch.Tensor


def pair() -> Pair:
    return Pair({"b": torch.arange(2.0), "a": torch.ones(2, 3)}, torch.tensor(4))


def test_names_say_where_a_tensor_belongs() -> None:
    assert set(trees.named(pair(), "server")) == {"server/weights/a", "server/weights/b", "server/count"}


def test_there_and_back() -> None:
    again = trees.rebuild(pair(), trees.named(pair()))
    assert isinstance(again, Pair) and torch.equal(again.weights["a"], torch.ones(2, 3)) and int(again.count) == 4
    assert torch.equal(again.weights["b"], torch.arange(2.0))


def test_foreign_names_and_shapes_are_refused() -> None:
    named = trees.named(pair())
    with pytest.raises(ValueError, match="one side only"):
        trees.rebuild(pair(), {k: v for k, v in named.items() if k != "count"})
    with pytest.raises(ValueError, match="expected"):
        trees.rebuild(pair(), named | {"count": torch.tensor([1, 2])})


def test_put_leaves_the_old_tree_alone() -> None:
    old = {"x": torch.zeros(3, 2)}
    new = trees.put(old, torch.tensor([2]), {"x": torch.ones(1, 2)})
    assert old["x"].sum() == 0 and new["x"].tolist() == [[0, 0], [0, 0], [1, 1]]
