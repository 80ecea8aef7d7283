"""Random numbers for data that must be the same everywhere.

NumPy keeps the bits of PCG64 and SeedSequence, but not what its `Generator` makes of them, so everything here is made
from raw bits: a newer NumPy gives the same orders and counts. Normal and Dirichlet draws go through SciPy's inverse
distribution functions, whose last digit may differ elsewhere; who stores them rounds them (`rounded`, whole counts).
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Kind = TypeVar("Kind", bound=np.generic)


class Draws:
    """A stream that depends on a seed and a path of numbers only, such as the client or the class it is for."""

    def __init__(self, seed: int, *path: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=path))

    def shuffle(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """The values in a new random order."""
        return values[np.argsort(self._bits.random_raw(len(values)), kind="stable")]

    def uniform(self, *shape: int) -> Floats:
        """Uniform on (0, 1), both ends left out: midpoints of 2^52 cells."""
        raw = np.asarray(self._bits.random_raw(int(np.prod(shape)))).reshape(shape)
        return ((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def below(self, bound: int, *shape: int) -> NDArray[np.int64]:
        """Whole numbers from 0 to `bound` - 1."""
        return (self.uniform(*shape) * bound).astype(np.int64)

    def normal(self, *shape: int) -> Floats:
        """Standard normal, by the inverse of its distribution function."""
        return np.asarray(special.ndtri(self.uniform(*shape)))

    def dirichlet(self, alpha: float, count: int) -> Floats:
        r"""Shares ~ Dirichlet(alpha, ..., alpha), also for an alpha so small that Gamma(alpha) underflows.

        With $G \sim \Gamma(\alpha + 1)$ and $U$ uniform, $G U^{1/\alpha} \sim \Gamma(\alpha)$; its logarithm is finite.
        """
        grown = special.gammaincinv(alpha + 1.0, self.uniform(count))
        logs = np.log(grown) + np.log(self.uniform(count)) / alpha
        shares = np.exp(logs - logs.max())
        return np.asarray(shares / shares.sum())


def rounded(values: Floats, step: float) -> Floats:
    """Values on a grid, so that processors whose last digits differ make the same bytes."""
    result: NDArray[Any] = np.round(values / step) * step
    return result
