"""Gaussians put together: by hand, against a product on a grid, and how the rules order."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedbayes.bayes.aggregation import Aggregation, aggregate
from fedbayes.bayes.gaussian import Gaussian, inverse_softplus

RULES = get_args(Aggregation)


def gaussians(mu: list[float], sigma: list[float]) -> Gaussian:
    """One weight, several Gaussians."""
    return Gaussian(
        *(f(torch.tensor(v, dtype=torch.float64)[:, None]) for f, v in ((_same, mu), (inverse_softplus, sigma)))
    )


def _same(values: Tensor) -> Tensor:
    return values


def weights(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "independents"])
def test_equal_gaussians_stay_as_they_are(rule: Aggregation) -> None:
    found = aggregate(gaussians([0.3] * 3, [0.2] * 3), weights(0.5, 0.3, 0.2), rule)
    assert (float(found.mu), float(found.sigma)) == (pytest.approx(0.3), pytest.approx(0.2))


def test_independents_shrink_even_equal_gaussians() -> None:
    found = aggregate(gaussians([0.3] * 4, [0.2] * 4), weights(*[0.25] * 4), "independents")
    assert float(found.sigma) == pytest.approx(0.1), "by 1 / sqrt(K)"


def test_two_by_hand() -> None:
    two, half = gaussians([0.0, 3.0], [1.0, 0.5]), weights(0.5, 0.5)
    # Precisions 1 and 4: tau = 2.5, mu = (0 + 4 * 3) / 2 / 2.5.
    found = aggregate(two, half, "conflation")
    assert (float(found.mu), float(found.sigma)) == (pytest.approx(2.4), pytest.approx(0.4**0.5))
    found = aggregate(two, half, "independents")
    assert (float(found.mu), float(found.sigma)) == (pytest.approx(1.5), pytest.approx((0.25 * 1.25) ** 0.5))
    found = aggregate(two, half, "moments")
    assert float(found.sigma) == pytest.approx((0.625 + 2.25) ** 0.5)
    assert float(aggregate(two, half, "sigma").sigma) == pytest.approx(0.75)


def test_conflation_is_the_normalised_weighted_product() -> None:
    three, p = gaussians([0.0, 1.0, -0.5], [0.7, 0.4, 1.1]), weights(0.2, 0.5, 0.3)
    grid = torch.linspace(-8, 8, 200_001, dtype=torch.float64)
    logs = sum(
        w * torch.distributions.Normal(m, s).log_prob(grid)
        for w, m, s in zip(p, three.mu.squeeze(1), three.sigma.squeeze(1), strict=True)
    )
    density = torch.softmax(logs, 0)  # type: ignore[arg-type]
    mean = (density * grid).sum()
    found = aggregate(three, p, "conflation")
    torch.testing.assert_close(found.mu[0], mean, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.sigma[0], (density * (grid - mean) ** 2).sum().sqrt(), rtol=0, atol=1e-7)


@given(st.lists(st.tuples(st.floats(1e-4, 5.0), st.floats(0.01, 1.0)), min_size=2, max_size=6))
def test_conflation_is_at_most_the_rho_average_and_that_the_mean_sigma(clients: list[tuple[float, float]]) -> None:
    sigma, raw = [s for s, _ in clients], torch.tensor([p for _, p in clients], dtype=torch.float64)
    both, p = gaussians([0.0] * len(sigma), sigma), raw / raw.sum()
    conflated, averaged, mean = (float(aggregate(both, p, rule).sigma) for rule in ("conflation", "rho", "sigma"))
    assert conflated <= averaged * (1 + 1e-9) and averaged <= mean * (1 + 1e-9)


def test_tiny_and_large_sigmas_come_back() -> None:
    # log(exp(sigma) - 1) loses all digits of a small sigma in float32.
    sigma = torch.tensor([1e-6, 1e-3, 0.1, 30.0])
    found = aggregate(
        Gaussian(torch.zeros(2, 4), inverse_softplus(sigma).expand(2, 4)), torch.tensor([0.5, 0.5]), "conflation"
    )
    torch.testing.assert_close(found.sigma, sigma, rtol=1e-5, atol=0)
