"""Keyed randomness: a number depends on its key and on nothing else.

A key is an int64 tensor folded from (seed, purpose, round, client, phase, step). Results therefore do not depend on
the order of clients, on the size of chunks, on the number of workers or on a restart.

PyTorch's CPU generators use the low 32 bits of a seed only, so two of the millions of keys of a long run may share a
stream. Keys are hashed, so such a pair has nothing else in common; it is harmless and stated here.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift(z: Tensor, bits: int) -> Tensor:
    """Logical right shift (PyTorch's is arithmetic)."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _mix(z: Tensor) -> Tensor:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014) in wrapping int64 arithmetic."""
    z = (z ^ _shift(z, 30)) * _MIX_1
    z = (z ^ _shift(z, 27)) * _MIX_2
    return z ^ _shift(z, 31)


def root(seed: int, purpose: str) -> Tensor:
    """The first key of a purpose (`batches`, `train`, `init`, ...) under a seed."""
    word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big", signed=True)
    return fold(torch.tensor(word), seed)


def fold(key: Tensor, *data: Tensor | int) -> Tensor:
    """A new key for each entry of `data`; tensors broadcast, so a whole cohort is folded at once."""
    for item in data:
        key = _mix(key ^ _mix(torch.as_tensor(item, dtype=torch.int64, device=key.device) + _GOLDEN))
    return key


def streams(key: Tensor, count: int) -> Tensor:
    """Keys `[*key.shape, count]`, one for each of several draws."""
    return fold(key[..., None], torch.arange(count, device=key.device))


def generator(key: Tensor | int) -> torch.Generator:
    """A private CPU generator for one key, for what is drawn outside the lifted code."""
    return torch.Generator().manual_seed(int(key) & 0x7FFF_FFFF_FFFF_FFFF)


@torch.library.custom_op("fedbayes::normal", mutates_args=())
def _normal(keys: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    rows = torch.empty(keys.numel(), size, dtype=dtype)
    for row, key in zip(rows, keys.reshape(-1).tolist(), strict=True):
        row.normal_(generator=generator(key))
    return rows.reshape(*keys.shape, size).to(keys.device)


@_normal.register_fake
def _(keys: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    return keys.new_empty((*keys.shape, size), dtype=dtype)


@_normal.register_vmap
def _(info: object, in_dims: tuple[int | None, ...], keys: Tensor, size: int, dtype: torch.dtype) -> tuple[Tensor, int]:
    assert in_dims[0] is not None
    return _normal(keys.movedim(in_dims[0], 0), size, dtype), 0


def normal(key: Tensor, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """`size` standard normal numbers for each key: shape `[*key.shape, size]`, the same bits under vmap and loop."""
    drawn: Tensor = _normal(key, size, dtype)
    return drawn


@torch.library.custom_op("fedbayes::perturbed", mutates_args=())
def _perturbed(keys: Tensor, centre: Tensor, scale: Tensor, draws: int, std: float) -> tuple[Tensor, Tensor]:
    size = centre.shape[-1]
    noise = _normal(keys, draws * size, centre.dtype).view(*keys.shape, draws, size)
    moved = torch.empty_like(noise)
    # A row at a time, so that a number's rounding does not depend on how many clients are beside it.
    for out, mu, sigma, g in zip(moved.view(-1, draws, size), centre.reshape(-1, size), scale.reshape(-1, size),
                                 noise.view(-1, draws, size), strict=True):  # fmt: skip
        torch.addcmul(mu, sigma, g, value=std, out=out)
    return moved, noise


@_perturbed.register_fake
def _(keys: Tensor, centre: Tensor, scale: Tensor, draws: int, std: float) -> tuple[Tensor, Tensor]:
    shape = (*centre.shape[:-1], draws, centre.shape[-1])
    return centre.new_empty(shape), centre.new_empty(shape)


@_perturbed.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], keys: Tensor, centre: Tensor, scale: Tensor, draws: int, std: float
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    keys, centre, scale = (
        tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip((keys, centre, scale), in_dims, strict=False)
    )
    return _perturbed(keys, centre, scale, draws, std), (0, 0)


def perturbed(key: Tensor, centre: Tensor, scale: Tensor, draws: int, std: float) -> tuple[Tensor, Tensor]:
    """Vectors `centre + scale * std * g` for standard normal `g`, and `g`: both `[*key.shape, draws, size]`.

    One operation rather than a formula: a compiled step then computes `scale` once, for the draw and for all that
    follows, where it would work it out again in every place that reads it.
    """
    drawn: tuple[Tensor, Tensor] = _perturbed(key, centre, scale, draws, std)
    return drawn
