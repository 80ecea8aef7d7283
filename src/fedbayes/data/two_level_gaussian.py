r"""The synthetic two-level Gaussian data of Self-FL (Chen et al., arXiv 2204.08069, model (1) and the appendix).

Client $m$ of $M = 20$ has a mean $\theta_m \sim N(\theta_0, \sigma_0^2)$ with $\theta_0 = 1.6$ and $N_m$ samples
$x \sim N(\theta_m, 0.1)$, so that its local estimate $z_m$, the mean of its samples, has variance $0.1 / N_m$.

| case | clients are | $\sigma_0^2$ | $N_m$ uniform on |
|---|---|---|---|
| 1 | alike | 0.001 | 10, ..., 20 |
| 2 | different | 1 | 10, ..., 200 |

The paper repeats everything 200 times. All repeats are one dataset: user $20 r + m$ is client $m$ of repeat $r$. Each
user has a random stream of its own, so that the first repeats of a longer dataset are the shorter dataset.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.draws import Draws, Floats, rounded
from fedbayes.data.sources import RawData

CLIENTS = 20
REPEATS = 200
THETA_0 = 1.6
SAMPLE_VARIANCE = 0.1
SEED = 220408069  # the paper's number
# Another processor may move a value by some 1e-16. On a grid of 6e-8 no such move changes one of half a million values,
# as it would on a grid of 1e-12, and the errors that are studied, of 1e-4 and more, do not notice the grid.
STEP = 2.0**-24


class Case(NamedTuple):
    """What the two cases differ in."""

    client_variance: float  # sigma_0^2
    fewest: int  # smallest N_m
    most: int  # largest N_m


CASES = {1: Case(0.001, 10, 20), 2: Case(1.0, 10, 200)}


def generate(case: int, repeats: int = REPEATS) -> RawData:
    """All samples by user, float64 (sample, 1), with what estimates are held against in the tables.

    The true means are `theta` (user) and `theta0` (repeat), the best that can be made of the data of a repeat
    `theta_fl` (user) and `theta_g` (repeat). There is nothing to classify: every label is 0.
    """
    drawn = [_client(case, repeat, client) for repeat in range(repeats) for client in range(CLIENTS)]
    samples = np.concatenate([own for _, own in drawn])
    users = np.repeat(np.arange(len(drawn), dtype=np.int64), [len(own) for _, own in drawn])
    best = posterior_means(local_estimates(samples[:, np.newaxis], users), CASES[case].client_variance)
    tables = {
        "users": users,
        "theta": np.array([theta for theta, _ in drawn]),
        "theta0": np.full(repeats, THETA_0),
        "theta_fl": rounded(best.personal.ravel(), STEP),
        "theta_g": rounded(best.common, STEP),
    }
    return RawData(samples[:, np.newaxis], np.zeros(len(samples), np.int64), [], "the generated set", tables)


def _client(number: int, repeat: int, client: int) -> tuple[float, Floats]:
    """The true mean of a client and its samples."""
    case = CASES[number]
    draws = Draws(SEED, number, repeat, client)
    count = case.fewest + int(draws.below(case.most - case.fewest + 1, 1)[0])
    theta = rounded(THETA_0 + math.sqrt(case.client_variance) * draws.normal(1), STEP)
    return float(theta[0]), rounded(theta + math.sqrt(SAMPLE_VARIANCE) * draws.normal(count), STEP)


class Estimates(NamedTuple):
    """What is sufficient for every mean: the local estimates and the sizes, each [repeat, client]."""

    means: Floats  # z_m
    counts: NDArray[np.int64]  # N_m


def local_estimates(samples: Floats, users: NDArray[np.int64]) -> Estimates:
    """Mean and number of each user's samples.

    Args:
        samples: as `generate` gives them (sample, 1).
        users: whose each is (sample,); all clients of a repeat must have samples.
    """
    counts = np.bincount(users)
    sums = np.bincount(users, weights=samples[:, 0])
    return Estimates((sums / counts).reshape(-1, CLIENTS), counts.reshape(-1, CLIENTS))


class PosteriorMeans(NamedTuple):
    """What the paper takes for the best estimates, with all variances known."""

    personal: Floats  # theta_m^(FL) [repeat, client]
    common: Floats  # theta^(G) [repeat]


def posterior_means(estimates: Estimates, client_variance: float) -> PosteriorMeans:
    r"""Eq. (3) and the global posterior mean, with $w_m = 1 / (\sigma_0^2 + \sigma_m^2)$ and $\sigma_m^2 = 0.1 / N_m$.

    $\theta^{(G)} = \sum_m w_m z_m / \sum_m w_m$, and $\theta_m^{(FL)}$ is the mean of $z_m$ with weight
    $\sigma_m^{-2}$ and of the others' $z_k$ with weights $w_k$.
    """
    variance = SAMPLE_VARIANCE / estimates.counts
    weights = 1 / (client_variance + variance)
    weighted = weights * estimates.means
    total, summed = weights.sum(1, keepdims=True), weighted.sum(1, keepdims=True)
    others, others_summed = total - weights, summed - weighted
    personal = (estimates.means / variance + others_summed) / (1 / variance + others)
    return PosteriorMeans(personal, (summed / total)[:, 0])
