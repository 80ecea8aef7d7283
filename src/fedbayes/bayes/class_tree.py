"""A binary tree over classes: every inner node splits its classes in two by 2-means on the classes' means.

A classifier of many classes becomes one of two sides for each inner node; the probability of a class is the product
along its path. The tree is made without random numbers: 2-means begins at every pair of class means, and the best end
wins.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Assignments of so few points to two centres settle within a few steps; this only bounds a cycle of rounding.
MOST_STEPS = 100


class ClassTree(NamedTuple):
    """Classes on either side of each inner node, root first, as 0-1 tables; rows behind the last node are 0."""

    left: Tensor  # [node, class], bool; the side labelled 1
    right: Tensor  # [node, class], bool

    @property
    def inner(self) -> range:
        """Numbers of the inner nodes."""
        return range(int(self.left.any(1).sum()))


def class_tree(x: Tensor, y: Tensor, classes: int) -> ClassTree:
    """The tree over the classes that occur in `y`, with as many rows as a tree over all classes would have.

    Args:
        x: points `[sample, dim]`.
        y: their classes.
        classes: how many there are.
    """
    member = torch.nn.functional.one_hot(y, classes).to(x.dtype)
    means = (member.T @ x) / member.sum(0).clamp_min(1)[:, None]
    left, right = (torch.zeros(max(classes - 1, 1), classes, dtype=torch.bool, device=x.device) for _ in range(2))
    waiting, node = [member.any(0).nonzero().squeeze(1)], 0
    while waiting:
        own = waiting.pop(0)
        if len(own) < 2:
            continue
        side = halves(means[own])
        left[node, own[side]] = True
        right[node, own[~side]] = True
        waiting += [own[side], own[~side]]
        node += 1
    return ClassTree(left, right)


def halves(points: Tensor) -> Tensor:
    """Which of at least two points go to the left: those that 2-means puts together with the first one."""
    count = len(points)
    first, second = torch.combinations(torch.arange(count, device=points.device), 2).T
    centres = torch.stack([points[first], points[second]], 1)
    side = _nearer_first(points, centres)
    for _ in range(MOST_STEPS):
        centres = torch.stack([_means(points, side), _means(points, ~side)], 1)
        moved = _nearer_first(points, centres)
        if torch.equal(moved, side):
            break
        side = moved
    centres = torch.stack([_means(points, side), _means(points, ~side)], 1)
    spread = _distances(points, centres)
    best = side[torch.where(side, spread[:, 0], spread[:, 1]).sum(1).argmin()]
    if best.all() or not best.any():
        # Points that are all the same have no halves; any division is as good.
        best = torch.arange(count, device=points.device) < (count + 1) // 2
    return best if best[0] else ~best


def _means(points: Tensor, side: Tensor) -> Tensor:
    """Means `[start, dim]` of the points on a side of each start."""
    weight = side.to(points.dtype)
    return (weight @ points) / weight.sum(1, keepdim=True).clamp_min(1)


def _distances(points: Tensor, centres: Tensor) -> Tensor:
    """Squared distances `[start, side, point]` of every point from the centres `[start, side, dim]`."""
    return torch.cdist(centres, points.expand(len(centres), *points.shape), compute_mode=_EXACT).square()


def _nearer_first(points: Tensor, centres: Tensor) -> Tensor:
    distance = _distances(points, centres)
    return distance[:, 0] <= distance[:, 1]


# By differences, not by products of matrices: class means may be close together.
_EXACT = "donot_use_mm_for_euclid_dist"
