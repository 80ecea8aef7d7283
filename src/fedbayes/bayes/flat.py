"""Weights by name as one flat vector and back: elementwise maths then runs once, not once a tensor."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from fedbayes.tensors import Params


class Layout(NamedTuple):
    """Where each named tensor lies in the flat vector."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(math.prod(shape) for shape in self.shapes)


def layout_of(params: Params) -> Layout:
    """The layout of some weights."""
    return Layout(tuple(params), tuple(tensor.shape for tensor in params.values()))


def flatten(params: Params) -> Tensor:
    """All weights one after the other."""
    return torch.cat([tensor.flatten() for tensor in params.values()])


def unflatten(vector: Tensor, layout: Layout) -> Params:
    """Weights by name, as views of the flat vector."""
    parts = torch.split(vector, [math.prod(shape) for shape in layout.shapes])
    return {name: part.view(shape) for name, part, shape in zip(layout.names, parts, layout.shapes, strict=True)}
