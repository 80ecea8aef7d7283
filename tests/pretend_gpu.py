"""A GPU that is not there: a device of its own whose tensors have numbers, kept in the computer's memory.

As a real GPU does, it refuses to work on tensors of two devices at once (a 0-dim tensor of the CPU is a plain number to
it). As a real GPU does not, it refuses in `hot` code what would make it wait: a tensor that comes from the CPU or goes
there, and a number that Python reads (`.item()`, `.tolist()`, `if tensor:`, or a mask that says how long a result is).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from fedbayes.federation import rng

_setup_privateuseone_for_python_backend("pretend")
GPU = torch.device("pretend:0")

aten = torch.ops.aten
# What may have tensors of two devices, because it brings one to the other.
CROSSING = {aten._to_copy, aten.copy_, aten.to}
# What the host has to wait for: a number, or a result whose length depends on numbers.
READING = {aten._local_scalar_dense, aten.item, aten.equal, aten.nonzero, aten.masked_select, aten._unique2}
# The project's own operations, whose bodies ask for the device.
BODIES: dict[Any, Callable[..., Any]] = {
    torch.ops.fedbayes.normal.default: rng._normal._init_fn,
    torch.ops.fedbayes.perturbed.default: rng._perturbed._init_fn,
}


class TwoDevices(Exception):
    """An operation on tensors of the CPU and of the GPU."""


class NoFloat64(TypeError):
    """A tensor of float64 on a device that has none."""


class Waits(Exception):
    """In hot code, something that a GPU and its host would wait for each other for."""


class OnGpu(Tensor):
    """A tensor of the pretended GPU; `numbers` are on the CPU."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> OnGpu:
        made: OnGpu = torch.Tensor._make_wrapper_subclass(
            cls, numbers.shape, strides=numbers.stride(), storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype, device=GPU,
        )  # fmt: skip
        made.numbers = numbers
        return made

    def tolist(self) -> Any:
        """As of a real one, by way of the CPU."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func}: a tensor of the pretended GPU outside of it")


class PretendGpu(TorchDispatchMode):
    """Operations on the device; `with PretendGpu():` switches it on. Apple's GPUs have no float64."""

    def __init__(self, float64: bool = True) -> None:
        super().__init__()
        self.float64 = float64
        self.is_hot = False
        self.before: list[bool] = []

    def __enter__(self) -> PretendGpu:
        # `torch.tensor([1, 2], device=...)` is then made on the CPU and brought over, which can be seen.
        self.before.append(torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch._C._set_only_lift_cpu_tensors(self.before.pop())

    @staticmethod
    def active() -> PretendGpu:
        """The one that is switched on."""
        mode = _get_current_dispatch_mode()
        assert isinstance(mode, PretendGpu)
        return mode

    @contextmanager
    def hot(self) -> Iterator[None]:
        """Code that must not wait."""
        before, self.is_hot = self.is_hot, True
        try:
            yield
        finally:
            self.is_hot = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = pytree.tree_leaves((args, kwargs))
        ours = [leaf for leaf in given if isinstance(leaf, OnGpu)]
        if func in BODIES and ours:
            with self:
                return BODIES[func](*args, **kwargs)
        theirs = [leaf for leaf in given if isinstance(leaf, Tensor) and leaf.dim() > 0 and not isinstance(leaf, OnGpu)]
        asked = next((leaf.type for leaf in given if isinstance(leaf, torch.device)), None)
        self._check(func, bool(ours), bool(theirs), asked, given)
        bare_args, bare_kwargs = pytree.tree_map(_bare, (args, kwargs))
        found = func(*bare_args, **bare_kwargs)
        if torch.Tag.inplace_view in func.tags:
            # It gives the tensor another shape: ours has to learn of it, too.
            with no_dispatch():
                func(*args, **kwargs)
        filled = func.overloadpacket is aten.copy_ and not isinstance(args[0], OnGpu)
        if filled or not (ours if asked is None else asked == GPU.type):
            return found
        if not self.float64 and any(_is_float64(leaf) for leaf in pytree.tree_leaves(found)):
            raise NoFloat64(str(func))
        same = {id(leaf.numbers): leaf for leaf in ours}
        return pytree.tree_map_only(Tensor, lambda leaf: same[id(leaf)] if id(leaf) in same else OnGpu(leaf), found)

    def _check(self, func: Any, ours: bool, theirs: bool, asked: str | None, given: list[Any]) -> None:
        kind = func.overloadpacket
        if ours and theirs and kind not in CROSSING:
            raise TwoDevices(str(func))
        if asked == GPU.type and any(isinstance(leaf, torch.Generator) for leaf in given):
            raise TwoDevices(f"{func}: a generator of the CPU")
        leaves = ours and asked not in (None, GPU.type)
        arrives = kind in CROSSING and not ours and asked == GPU.type
        masked = kind is aten.index and any(isinstance(leaf, OnGpu) and leaf.dtype == torch.bool for leaf in given[1:])
        if self.is_hot and (leaves or arrives or masked or (ours and (theirs or kind in READING))):
            raise Waits(str(func))


def _is_float64(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dtype == torch.float64


def _bare(leaf: Any) -> Any:
    """As the CPU takes it."""
    if isinstance(leaf, OnGpu):
        return leaf.numbers
    return torch.device("cpu") if isinstance(leaf, torch.device) and leaf.type == GPU.type else leaf
