r"""Exact draws from the Pólya-Gamma law PG(1, c) (Polson, Scott, Windle 2013, section 4; Devroye 2009).

PG(1, c) is $J^*(1, |c|/2) / 4$, and the density of $J^*(1, z)$ is proportional to
$e^{-z^2 x / 2} \sum_n (-1)^n a_n(x)$. A draw is proposed from the first term of that alternating series and accepted
when the partial sums, which close in on the density from both sides, have decided. The series has two forms, one that
converges fast below `CUT` and one above; so a proposal is an inverse Gaussian cut off at `CUT`, or an exponential
beyond it.

All is in float64, because what is compared are sums that nearly cancel; the result has the type of `c`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fedbayes.tensors import exact

# The point between the two forms of the series; 0.64 nearly makes the most of both.
CUT = 0.64


def polya_gamma(c: Tensor, stream: torch.Generator) -> Tensor:
    """One draw of PG(1, c) for each entry of `c`."""
    z = exact(c.detach()).abs().flatten() / 2
    if not z.isfinite().all():
        raise ValueError("PG(1, c): found a c that is not finite, for which no draw would ever be accepted")
    draws = _filled(z, lambda at: _candidates(at, stream))
    return (draws / 4).to(c.device, c.dtype).reshape(c.shape)


def _filled(at: Tensor, attempt: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """A number for each entry of `at`: attempts are repeated where they were not accepted."""
    found = torch.empty_like(at)
    left = torch.arange(len(at), device=at.device)
    while len(left):
        values, accepted = attempt(at[left])
        found[left[accepted]] = values[accepted]
        left = left[~accepted]
    return found


def _candidates(z: Tensor, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """A proposal of J*(1, z) for each entry, and whether the series accepts it."""
    rate = math.pi**2 / 8 + z.square() / 2
    # Masses of the two proposals: that of the exponential beyond the cut, and that of the inverse Gaussian below it.
    beyond = math.log(math.pi / 2) - rate.log() - rate * CUT
    root = math.sqrt(1 / CUT)
    below = math.log(2) + torch.logaddexp(
        torch.special.log_ndtr(root * (CUT * z - 1)) - z, torch.special.log_ndtr(-root * (CUT * z + 1)) + z
    )
    exponential = _uniform(z, stream) < torch.sigmoid(beyond - below)
    x = CUT + _exponential(z, stream) / rate
    inside = ~exponential
    x[inside] = _cut_inverse_gaussian(z[inside], stream)
    return x, series_accepts(x, _uniform(z, stream))


def _cut_inverse_gaussian(z: Tensor, stream: torch.Generator) -> Tensor:
    """Draws of the inverse Gaussian law with mean 1 / z and shape 1, given that they are below the cut."""
    found = torch.empty_like(z)
    # With its mean beyond the cut a plain draw would rarely be below it.
    far = z * CUT < 1
    found[far] = _filled(z[far], lambda at: _from_stable(at, stream))
    found[~far] = _filled(z[~far], lambda at: _from_normal(at, stream))
    return found


def _from_stable(z: Tensor, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """A one-sided stable variable below the cut, by rejection, tilted by exp(-z^2 x / 2)."""
    first, second = _exponential(z, stream), _exponential(z, stream)
    x = CUT / (1 + CUT * first).square()
    tilt = _uniform(z, stream) <= torch.exp(-z.square() * x / 2)
    return x, (first.square() <= 2 * second / CUT) & tilt


def _from_normal(z: Tensor, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """An inverse Gaussian variable from a squared normal (Michael, Schucany, Haas 1976), if it is below the cut."""
    mean = 1 / z
    scaled = mean * torch.randn(z.shape, generator=stream, dtype=z.dtype, device=stream.device).to(z.device).square()
    x = mean + mean / 2 * (scaled - torch.sqrt(4 * scaled + scaled.square()))
    x = torch.where(_uniform(z, stream) <= mean / (mean + x), x, mean.square() / x)
    return x, (x > 0) & (x <= CUT)


def series_accepts(x: Tensor, u: Tensor) -> Tensor:
    """Whether u a_0(x) lies below the sum of the alternating series; it does for all but a few u near 1."""
    total = _term(x, 0)
    height, decided = u * total, torch.zeros_like(x, dtype=torch.bool)
    accepted, n = torch.zeros_like(decided), 0
    while not decided.all():
        n += 1
        total = total - _term(x, n) if n % 2 else total + _term(x, n)
        # Odd partial sums are below the density, even ones above it.
        now = (height <= total) if n % 2 else (height > total)
        accepted |= now & ~decided & bool(n % 2)
        decided |= now
    return accepted


def _term(x: Tensor, n: int) -> Tensor:
    """a_n(x), the n-th term of the series in the form that converges fast at x."""
    half = n + 0.5
    below = (2 / (math.pi * x)) ** 1.5 * torch.exp(-2 * half**2 / x)
    return math.pi * half * torch.where(x > CUT, torch.exp(-(half**2) * math.pi**2 * x / 2), below)


def _uniform(like: Tensor, stream: torch.Generator) -> Tensor:
    """Numbers in (0, 1], drawn where the stream is."""
    drawn = torch.rand(like.shape, generator=stream, dtype=like.dtype, device=stream.device)
    return 1 - drawn.to(like.device)


def _exponential(like: Tensor, stream: torch.Generator) -> Tensor:
    return -_uniform(like, stream).log()
