"""Gradients of a function of one client's weights, by the cheaper of PyTorch's two ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import VmapInterpreter, retrieve_all_functorch_interpreters
from torch.utils import _pytree as pytree


@dataclass
class Count:
    """Gradients worked out while this was open."""

    gradients: int = 0


_open: list[Count] = []


@contextmanager
def counting() -> Iterator[Count]:
    """Count the gradients worked out in the block, in eager code; under vmap one for each entry of the axis."""
    count = Count()
    _open.append(count)
    try:
        yield count
    finally:
        _open.pop()


def grad_and_value(function: Callable[..., Tensor], passes: int = 1) -> Callable[..., tuple[Any, Tensor]]:
    """The gradient of a scalar function in its first argument, a tree of tensors, and the function's value.

    `passes` is for the count alone: a function that averages over draws goes through the network once for each.

    Inside vmap, and inside another gradient, this is `torch.func.grad_and_value`. For a client on its own (the lift
    `loop`) the same numbers come from ordinary reverse mode, which spares the wrapping of every operation: a fifth of a
    step of a small network.
    """
    by_transform = torch.func.grad_and_value(function)

    def found(at: Any, *rest: Any) -> tuple[Any, Tensor]:
        if _open:
            _open[-1].gradients += passes * _side_by_side()
        if _is_transformed() or _is_differentiated(at, rest):
            both: tuple[Any, Tensor] = by_transform(at, *rest)
            return both
        leaves, shape = pytree.tree_flatten(at)
        with torch.enable_grad():
            free = [leaf.detach().requires_grad_() for leaf in leaves]
            value = function(pytree.tree_unflatten(free, shape), *rest)
            if not value.requires_grad:
                return pytree.tree_unflatten([torch.zeros_like(leaf) for leaf in leaves], shape), value
            grads = torch.autograd.grad(value, free, materialize_grads=True)
        return pytree.tree_unflatten(grads, shape), value.detach()

    return found


def _side_by_side() -> int:
    """How many evaluations one call stands for: the product of the axes that are being vmapped over."""
    levels = retrieve_all_functorch_interpreters()
    return math.prod(level.batch_size() for level in levels if isinstance(level, VmapInterpreter))


def _is_transformed() -> bool:
    """Whether this runs inside vmap or another transform, or is being compiled."""
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None


def _is_differentiated(*trees: Any) -> bool:
    """Whether an outer gradient goes through a tensor."""
    return torch.is_grad_enabled() and any(
        isinstance(leaf, Tensor) and leaf.requires_grad for leaf in pytree.tree_leaves(trees)
    )
