"""Mean-field Gaussians against torch.distributions, automatic differentiation and quadrature."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from fedbayes.bayes.gaussian import (
    Gaussian,
    Spread,
    inverse_softplus,
    kl,
    kl_gradient_first,
    kl_gradient_second,
    slope,
    softplus,
)


def pair(size: int = 7) -> tuple[Gaussian, Gaussian]:
    torch.manual_seed(0)
    q, p = (Gaussian(torch.randn(size, dtype=torch.float64), torch.randn(size, dtype=torch.float64)) for _ in range(2))
    return q, p


def test_kl_equals_torch_distributions() -> None:
    q, p = pair()
    expected = kl_divergence(Normal(q.mu, q.sigma), Normal(p.mu, p.sigma)).sum()
    torch.testing.assert_close(kl(q, p), expected)
    assert float(kl(q, q)) == pytest.approx(0, abs=1e-12)


def test_kl_equals_quadrature() -> None:
    q, p = (Gaussian(*torch.tensor(values, dtype=torch.float64)[:, None]) for values in ((0.3, -0.5), (-0.2, 0.4)))
    x = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    log_q, log_p = (Normal(g.mu, g.sigma).log_prob(x) for g in (q, p))
    assert float(torch.trapezoid(log_q.exp() * (log_q - log_p), x)) == pytest.approx(float(kl(q, p)), abs=1e-9)


@pytest.mark.parametrize("side", [0, 1])
def test_written_gradients_equal_automatic_ones(side: int) -> None:
    both = pair()
    moving = Gaussian(*(v.clone().requires_grad_() for v in both[side]))
    arguments = (moving, both[1]) if side == 0 else (both[0], moving)
    expected = torch.autograd.grad(kl(*arguments), list(moving))
    found = (kl_gradient_first, kl_gradient_second)[side](*(Spread(g.mu, g.sigma) for g in both))
    for a, b in zip((found.mu, found.sigma * slope(both[side].rho)), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_the_second_gradient_vanishes_at_the_first_distribution() -> None:
    q = Spread(pair()[0].mu, pair()[0].sigma)
    for part in (*kl_gradient_second(q, q), *kl_gradient_first(q, q)):
        torch.testing.assert_close(part, torch.zeros_like(part), rtol=0, atol=1e-12)


def test_softplus_and_its_inverse_are_stable_at_both_ends() -> None:
    rho = torch.tensor([-40.0, -20.0, -3.0, 0.0, 3.0, 50.0, 800.0], dtype=torch.float64)
    torch.testing.assert_close(softplus(rho), torch.logaddexp(rho, torch.zeros_like(rho)))
    torch.testing.assert_close(inverse_softplus(softplus(rho)), rho)
    torch.testing.assert_close(slope(rho), torch.sigmoid(rho))


def test_softplus_does_not_depend_on_the_place_in_a_vector() -> None:
    rho = torch.linspace(-5, 5, 1001)
    alone = torch.cat([softplus(value[None]) for value in rho])
    assert torch.equal(softplus(rho), alone)
