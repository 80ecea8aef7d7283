"""The class tree: 2-means against all partitions, and the shape of the tree."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from fedbayes.bayes.class_tree import class_tree, halves


def within(points: torch.Tensor, side: torch.Tensor) -> float:
    """Sum of squared distances from the means of both sides."""
    return sum(float((own - own.mean(0)).square().sum()) for own in (points[side], points[~side]))


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_halves_are_the_best_of_all_partitions(count: int) -> None:
    points = torch.randn(count, 3, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    sides = [torch.tensor([True, *rest]) for rest in product([True, False], repeat=count - 1) if not all(rest)]
    best = min(sides, key=lambda side: within(points, side))
    assert torch.equal(halves(points), best)


def test_a_tree_known_by_hand() -> None:
    # On a line: 0 and 4 near each other, 2 and 1 near each other, 3 is absent.
    places = {0: 0.0, 4: 1.0, 2: 10.0, 1: 10.5}
    y = torch.tensor([0, 0, 4, 2, 1, 1])
    x = torch.tensor([[places[int(label)]] for label in y], dtype=torch.float64)
    tree = class_tree(x, y, 5)
    assert tree.inner == range(3) and tree.left.shape == (4, 5)
    assert tree.left.int().tolist() == [[1, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0] * 5]
    assert tree.right.int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, 0, 0], [0] * 5]


def test_every_class_is_told_from_every_other_and_the_order_of_samples_does_not_matter() -> None:
    stream = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 4, generator=stream, dtype=torch.float64), torch.arange(60) % 7
    tree = class_tree(x, y, 9)
    assert tree.inner == range(6)
    for a in range(7):
        for b in range(a):
            apart = (tree.left[:, a] & tree.right[:, b]) | (tree.left[:, b] & tree.right[:, a])
            assert int(apart.sum()) == 1, "on two sides of exactly one node"
    order = torch.randperm(60, generator=stream)
    again = class_tree(x[order], y[order], 9)
    assert torch.equal(tree.left, again.left) and torch.equal(tree.right, again.right)


@pytest.mark.parametrize(("labels", "nodes"), [([2, 2, 2], 0), ([0, 1, 2], 2)])
def test_one_class_has_no_node_and_equal_means_are_told_apart_all_the_same(labels: list[int], nodes: int) -> None:
    tree = class_tree(torch.zeros(3, 2), torch.tensor(labels), 3)
    assert tree.inner == range(nodes)
    assert int((tree.left | tree.right).sum()) == {0: 0, 2: 5}[nodes]
