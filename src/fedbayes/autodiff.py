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


def grad_and_value(
    function: Callable[..., Any], passes: int = 1, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """The gradient of a scalar function in its first argument, a tree of tensors, and the function's value.

    `passes` is for the count alone: a function that averages over draws goes through the network once for each. With
    `has_aux` the function gives a pair, of which only the first is differentiated, and its value is that pair.

    Inside vmap, and inside another gradient, this is `torch.func.grad_and_value`. For a client on its own (the lift
    `loop`) the same numbers come from ordinary reverse mode, which spares the wrapping of every operation: a fifth of a
    step of a small network.
    """
    by_transform = torch.func.grad_and_value(function, has_aux=has_aux)

    def found(at: Any, *rest: Any) -> tuple[Any, Any]:
        if _open:
            _open[-1].gradients += passes * _side_by_side()
        if _is_transformed() or _is_differentiated(at, rest):
            both: tuple[Any, Any] = by_transform(at, *rest)
            return both
        leaves, shape = pytree.tree_flatten(at)
        with torch.enable_grad():
            free = [leaf.detach().requires_grad_() for leaf in leaves]
            out = function(pytree.tree_unflatten(free, shape), *rest)
            value = out[0] if has_aux else out
            if not value.requires_grad:
                return pytree.tree_unflatten([torch.zeros_like(leaf) for leaf in leaves], shape), out
            grads = torch.autograd.grad(value, free, materialize_grads=True)
        return pytree.tree_unflatten(grads, shape), pytree.tree_map(torch.Tensor.detach, out)

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
