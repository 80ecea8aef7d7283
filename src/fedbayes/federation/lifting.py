"""How a function written for one client runs for a whole cohort: side by side, one at a time, compiled or not.

Two ways to lift, chosen by a static rule and never by a timing:

- `vmap`: the clients' states are stacked along a first axis and each step runs once for all of them;
- `loop`: the same code, one client at a time, for what cannot be vmapped or is slower so.

A vmapped step may be compiled, which pays in long runs. Within one way of lifting and compiling, on one thread, results
are the same bits whatever the chunk size and the order of clients; between ways they agree up to rounding.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from fedbayes.autodiff import counting
from fedbayes.federation import trees
from fedbayes.federation.contract import Method, Tree

Lift = Literal["vmap", "loop"]
Function = Callable[..., Tree]

# Compiling costs 10 to 60 s, and saves between 1 ms (FedAvg, batch 20) and 90 ms (pFedBayes) a step of ten clients.
COMPILE_FROM_STEPS = 2000


@dataclass(frozen=True)
class Lifting:
    """A chosen way to lift, and what is known of the functions met so far."""

    kind: Lift
    compiled: bool = False
    chunk: int | None = None  # clients in memory at once; None means all
    _compiled: dict[Function, Function] = field(default_factory=dict, repr=False, compare=False)
    _gradients: dict[Function, int] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.kind}, {'compiled' if self.compiled else 'eager'}"

    def clients_at_once(self, cohort: int) -> int:
        """How many clients of a cohort are visited together."""
        return 1 if self.kind == "loop" else min(self.chunk or cohort, cohort)

    def over(self, function: Function, in_dims: int | tuple[int | None, ...] = 0) -> Function:
        """A function of one client as a function of stacked clients (of a single one under `loop`)."""
        if self.kind == "vmap":
            return torch.vmap(function, in_dims=in_dims)

        def alone(*args: Tree) -> Tree:
            dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
            bare = [self.enter(arg) if dim == 0 else arg for arg, dim in zip(args, dims, strict=True)]
            return self.leave(function(*bare))

        return alone

    def enter(self, tree: Tree, axis: int = 0) -> Tree:
        """Stacked clients as a `step` takes them: under `loop` the single client, without the clients' axis."""
        return tree if self.kind == "vmap" else trees.each(lambda leaf: leaf.select(axis, 0), tree)

    def leave(self, tree: Tree) -> Tree:
        """What a `step` gives as stacked clients again."""
        return tree if self.kind == "vmap" else trees.each(lambda leaf: leaf.unsqueeze(0), tree)

    def step(self, function: Function) -> Function:
        """The step of a phase for what `enter` gives; it runs often enough to be compiled."""
        if self.kind == "loop":
            return function
        if not self.compiled:
            return self.over(function)
        if function not in self._compiled:
            self._compiled[function] = _compile(self.over(function))
        return self._compiled[function]

    def gradients(self, function: Function, *args: Tree) -> int:
        """Gradients that one step of one client takes, counted once by taking a step with the first client's `args`."""
        if function not in self._gradients:
            with counting() as count:
                function(*(trees.take(arg, 0) if self.kind == "vmap" else arg for arg in args))
            self._gradients[function] = count.gradients
        return self._gradients[function]


def _compile(function: Function) -> Function:
    # Compiled through a function with a code object of its own: PyTorch counts recompilations by code object, all
    # vmapped functions share one, and the ninth would be refused.
    def whole(*args: Tree) -> Tree:
        return function(*args)

    whole.__code__ = whole.__code__.replace(co_name=f"step_{id(function):x}")
    options: dict[str, Any] = {
        # Keep what is read twice, rather than compute it twice: Adam's moments would be worked out anew from every
        # gradient since the step began.
        "realize_reads_threshold": 1,
        "guard_filter_fn": _only_arguments,
    }
    compiled: Function = torch.compile(whole, dynamic=False, options=options)
    return compiled


def _only_arguments(guards: Sequence[Any]) -> list[bool]:
    """Look at the arguments only before a call: what a step closes over never changes, and to check it is dear."""
    return [guard.guard_type in {"TENSOR_MATCH", "DUPLICATE_INPUT"} for guard in guards]


def choose_lift(method: Method, network_kind: str, device: torch.device) -> Lift:
    """The written rule: loop if the method cannot be traced, the network is recurrent, or it convolves on the CPU."""
    if not method.traceable or network_kind == "recurrent" or (network_kind == "conv" and device.type == "cpu"):
        return "loop"
    return "vmap"


def choose_compiled(lift: Lift, steps: int, device: torch.device) -> bool:
    """The written rule: compile what is vmapped and takes many steps, where there is a compiler."""
    return lift == "vmap" and steps >= COMPILE_FROM_STEPS and (device.type != "cpu" or has_compiler())


def has_compiler() -> bool:
    """Whether a C++ compiler is there, which PyTorch needs to compile for the CPU."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))
