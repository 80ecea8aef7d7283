"""Trees of tensors (NamedTuples, tuples and dicts) as flat named tensors and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from fedbayes.federation.contract import Tree

T = TypeVar("T")


def each(function: Callable[..., Tensor], tree: T, *more: T) -> T:
    """A tree of the same shape with `function` applied to its tensors (and those of `more` beside them)."""
    mapped: Any = _each(function, tree, *more)
    found: T = mapped
    return found


def _each(function: Callable[..., Tensor], tree: Tree, *more: Tree) -> Tree:
    # By hand: torch's pytree serves every container there is, and costs a twentieth of a step of a small network.
    if isinstance(tree, Tensor):
        return function(tree, *more)
    if isinstance(tree, Mapping):
        return {key: _each(function, part, *(other[key] for other in more)) for key, part in tree.items()}
    parts = (_each(function, *beside) for beside in zip(tree, *more, strict=True))
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def leaves(tree: Tree) -> list[Tensor]:
    """All tensors of a tree."""
    return [tensor for _, tensor in _walk(tree, "")]


def numel(tree: Tree) -> int:
    """Numbers held in a tree."""
    return sum(leaf.numel() for leaf in leaves(tree))


def stack(trees: Sequence[T]) -> T:
    """Trees of one shape side by side along a new first axis."""
    return each(lambda *parts: torch.stack(parts), *trees)


def concatenate(trees: Sequence[T]) -> T:
    """Stacked trees one after the other along their first axis."""
    return trees[0] if len(trees) == 1 else each(lambda *parts: torch.cat(parts), *trees)


def take(tree: T, rows: Tensor | int | slice) -> T:
    """Some entries of a stacked tree."""
    return each(lambda leaf: leaf[rows], tree)


def put(tree: T, rows: Tensor, new: T) -> T:
    """A stacked tree with some entries replaced; the old tree stays as it was."""
    return each(lambda old, part: old.index_copy(0, rows, part), tree, new)


def to_device(tree: T, device: torch.device) -> T:
    """A tree on a device."""
    return each(lambda leaf: leaf.to(device), tree)


def named(tree: Tree, prefix: str = "") -> dict[str, Tensor]:
    """Tensors of a tree under readable names: `server/weights/hidden0.weight`."""
    return dict(_walk(tree, prefix))


def rebuild(template: T, tensors: Mapping[str, Tensor], prefix: str = "") -> T:
    """The tree of `template`'s shape with the named tensors in it; refuses names and shapes that do not fit."""
    old = named(template, prefix)
    new = {name: tensors[name] for name in tensors if name.startswith(prefix)}
    if old.keys() != new.keys():
        raise ValueError(f"tensors do not fit: {sorted(old.keys() ^ new.keys())[:3]} are on one side only")
    for name, tensor in old.items():
        if new[name].shape != tensor.shape or new[name].dtype != tensor.dtype:
            raise ValueError(f"tensor {name}: expected {tensor.dtype} {list(tensor.shape)}, found {new[name].dtype}"
                             f" {list(new[name].shape)}")  # fmt: skip
    names = iter(old)
    return each(lambda tensor: new[next(names)].to(tensor.device), template)


def _walk(tree: Tree, prefix: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(tree, Tensor):
        yield prefix, tree
        return
    if isinstance(tree, Mapping):
        parts = list(tree.items())
    elif hasattr(tree, "_fields"):
        parts = list(zip(tree._fields, tree, strict=True))
    else:
        parts = [(str(i), part) for i, part in enumerate(tree)]
    for key, part in parts:
        yield from _walk(part, f"{prefix}/{key}" if prefix else str(key))
