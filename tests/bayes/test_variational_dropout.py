"""The KL of variational dropout against quadrature, and what its prior is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedbayes.bayes.variational_dropout import divergence

CASES = [(0.3, -2.0), (-1.7, 0.0), (0.02, -8.5), (0.5, -8.5), (0.0, -3.0), (4.0, -1.0)]


def found(w: float, a: float) -> float:
    return float(divergence(torch.tensor(w, dtype=torch.float64), torch.tensor(a, dtype=torch.float64)))


def log_normal(x: NDArray[np.float64], mean: float, variance: float) -> NDArray[np.float64]:
    return -0.5 * ((x - mean) ** 2 / variance + math.log(2 * math.pi * variance))


def quadrature(w: float, a: float, prior_variance: float) -> float:
    """The integral of q log(q / p) over ten standard deviations of q, by the trapezoid rule."""
    x = np.linspace(w - 10 * math.exp(a / 2), w + 10 * math.exp(a / 2), 20_001)
    log_q = log_normal(x, w, math.exp(a))
    return float(np.trapezoid(np.exp(log_q) * (log_q - log_normal(x, 0.0, prior_variance)), x))


@pytest.mark.parametrize(("w", "a"), CASES)
def test_it_is_the_kl_to_the_best_gaussian_prior(w: float, a: float) -> None:
    best = w**2 + math.exp(a)
    assert found(w, a) == pytest.approx(quadrature(w, a, best), abs=1e-9)
    for factor in (0.5, 0.9, 1.1, 2.0):
        # By hand the gap is (log f + 1/f - 1) / 2, at least 0.0023 for these factors.
        assert quadrature(w, a, factor * best) > found(w, a) + 0.002


def test_it_falls_with_the_variance_and_is_nothing_for_a_dropped_weight() -> None:
    # alpha = e^a / w^2 = 1 is half a bit: log(2) / 2.
    assert found(0.5, math.log(0.25)) == pytest.approx(math.log(2) / 2)
    assert found(0.0, -4.0) == 0.0
    # Tiny quotients keep their digits: log(1 + x) = x.
    assert found(1e-9, 0.0) == pytest.approx(0.5e-18, rel=1e-9)
