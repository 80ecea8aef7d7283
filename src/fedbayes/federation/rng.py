"""Keyed randomness: a number depends on its key and on nothing else.

A key is an int64 tensor folded from (seed, purpose, round, client, phase, step). Results therefore do not depend on
the order of clients, on the size of chunks, on the number of workers or on a restart.

On the CPU a key seeds one of PyTorch's generators. These use the low 32 bits of a seed only, so two of the millions of
keys of a long run may share a stream. Keys are hashed, so such a pair has nothing else in common; it is harmless and
stated here.

A GPU would wait for the host at every draw. There the numbers are hashes of key and position, made where the key is:
the same law, and other numbers than on the CPU.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)
# Folded into a key before positions are: no number is made of the bits of a key that is folded from the same one.
_NORMAL, _INTEGERS = 0x4E4F524D, 0x494E5453
# Numbers hashed at once, which bounds the memory of the hashes (8 bytes each, a few at a time). It changes no number.
_AT_ONCE = 1 << 24


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
        # A plain number is hashed by Python: as a tensor it would be sent to the key's device, which waits for it.
        if isinstance(item, Tensor):
            key = _mix(key ^ _mix(item.to(key.device, torch.int64) + _GOLDEN))
        else:
            key = _mix(key ^ _mixed(item))
    return key


def _mixed(number: int) -> int:
    """`_mix(number + _GOLDEN)` of a plain number."""
    mask = (1 << 64) - 1
    z = (number + _GOLDEN) & mask
    z = ((z ^ (z >> 30)) * _MIX_1) & mask
    z = ((z ^ (z >> 27)) * _MIX_2) & mask
    return _signed(z ^ (z >> 31))


def streams(key: Tensor, count: int) -> Tensor:
    """Keys `[*key.shape, count]`, one for each of several draws."""
    return fold(key[..., None], torch.arange(count, device=key.device))


def generator(key: Tensor | int) -> torch.Generator:
    """A private CPU generator for one key, for what is drawn outside the lifted code."""
    return torch.Generator().manual_seed(int(key) & 0x7FFF_FFFF_FFFF_FFFF)


@torch.library.custom_op("fedbayes::normal", mutates_args=())
def _normal(keys: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    if keys.device.type != "cpu":
        return _hashed_normal(keys, size, dtype)
    rows = torch.empty(keys.numel(), size, dtype=dtype)
    for row, key in zip(rows, keys.reshape(-1).tolist(), strict=True):
        row.normal_(generator=generator(key))
    return rows.reshape(*keys.shape, size)


def _hashed_normal(keys: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Standard normal numbers by Box and Muller (1958) from hashes of key and position."""
    rows = keys.new_empty((keys.numel(), size), dtype=dtype)
    some = max(1, _AT_ONCE // max(1, size))
    folded = fold(keys.reshape(-1), _NORMAL)
    for part, own in zip(torch.split(rows, some), torch.split(folded, some), strict=True):
        part.copy_(_box_muller(own, size, torch.promote_types(dtype, torch.float32)))
    return rows.view(*keys.shape, size)


def _box_muller(keys: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    r"""Pairs $\sqrt{-2 \log u} (\cos 2\pi v, \sin 2\pi v)$ of uniform $u, v$: first all cosines, then all sines."""
    pairs = -(-size // 2)
    # 63 bits, of which a float keeps the leading ones: u may be as small as 2^-63, and is never 0.
    bits = _shift(streams(keys, 2 * pairs), 1) | 1
    u, v = (bits.to(dtype) * 2.0**-63).view(*keys.shape, 2, pairs).unbind(-2)
    radius, angle = torch.sqrt(-2 * torch.log(u)), 2 * math.pi * v
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], -1)[..., :size]


@_normal.register_fake
def _(keys: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    return keys.new_empty((*keys.shape, size), dtype=dtype)


@_normal.register_vmap
def _(info: object, in_dims: tuple[int | None, ...], keys: Tensor, size: int, dtype: torch.dtype) -> tuple[Tensor, int]:
    assert in_dims[0] is not None
    return _normal(keys.movedim(in_dims[0], 0), size, dtype), 0


def integers(keys: Tensor, bounds: Sequence[int], size: int) -> tuple[Tensor, ...]:
    """`size` whole numbers from 0 to below each of `bounds` for each of some keys: `[key, size]` for each bound."""
    if keys.device.type != "cpu":
        return _hashed_integers(keys, bounds, size)
    drawn = [[torch.randint(bound, (size,), generator=g) for bound in bounds] for g in map(generator, keys.tolist())]
    return tuple(torch.stack(same) for same in zip(*drawn, strict=True))


def _hashed_integers(keys: Tensor, bounds: Sequence[int], size: int) -> tuple[Tensor, ...]:
    # Of 63 bits, a remainder favours small numbers by less than bound / 2^63.
    bits = _shift(streams(fold(keys, _INTEGERS), len(bounds) * size), 1).view(*keys.shape, len(bounds), size)
    return tuple(own % bound for own, bound in zip(bits.unbind(-2), bounds, strict=True))


def normal(key: Tensor, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """`size` standard normal numbers for each key: shape `[*key.shape, size]`, the same bits under vmap and loop."""
    drawn: Tensor = _normal(key, size, dtype)
    return drawn


@torch.library.custom_op("fedbayes::perturbed", mutates_args=())
def _perturbed(keys: Tensor, centre: Tensor, scale: Tensor, draws: int, std: float) -> tuple[Tensor, Tensor]:
    size = centre.shape[-1]
    noise = _normal(keys, draws * size, centre.dtype).view(*keys.shape, draws, size)
    if keys.device.type != "cpu":
        # A GPU works out every number by itself, wherever it stands.
        return torch.addcmul(centre.unsqueeze(-2), scale.unsqueeze(-2), noise, value=std), noise
    moved = torch.empty_like(noise)
    # A row at a time: the CPU rounds differently at the end of a stretch, and a number must not depend on how many
    # clients are beside it.
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
