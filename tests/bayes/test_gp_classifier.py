"""The GP classifier against dense closed forms for fixed omega, and its Gibbs chains against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from fedbayes.bayes.gp_classifier import Rbf, Values, gibbs, latent, predict_latent, probability

KERNEL = Rbf(output_scale=8.0, length_scale=1.0, jitter=1e-3)


def example(samples: int = 6, points: int = 4) -> tuple[torch.Tensor, ...]:
    """Samples and points on the sphere, sides, and some omega of two chains."""
    stream = torch.Generator().manual_seed(0)
    x, new = (torch.randn(n, 3, generator=stream, dtype=torch.float64) for n in (samples, points))
    x, new = x / x.norm(dim=1, keepdim=True), new / new.norm(dim=1, keepdim=True)
    y = torch.arange(samples) % 2
    omega = 0.05 + 0.4 * torch.rand(2, samples, generator=stream, dtype=torch.float64)
    return x, new, y, omega


def dense_posterior(K: torch.Tensor, y: torch.Tensor, omega: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The law of f | omega, y in information form: precision K^-1 + Omega, mean Sigma kappa."""
    sigma = torch.linalg.inv(torch.linalg.inv(K) + torch.diag(omega))
    return sigma @ (y.double() - 0.5), sigma


def test_the_kernel_number_by_number() -> None:
    x, new, _, _ = example()
    kernel = Rbf(output_scale=8.0, length_scale=0.7, jitter=1e-3)
    expected = [[8 * math.exp(-float((a - b).square().sum()) / (2 * 0.7**2)) for b in new] for a in x]
    torch.testing.assert_close(kernel.between(x, new), torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(kernel.within(x), kernel.between(x, x) + 1e-3 * torch.eye(6, dtype=torch.float64))


def test_draws_given_omega_have_the_dense_mean_and_covariance() -> None:
    """A draw is linear in its 2 n random numbers, so that unit vectors show its covariance without any sampling."""
    x, _, y, omegas = example()
    K, n = KERNEL.within(x), len(x)
    omega = omegas[0]
    unit = torch.cat([torch.zeros(1, 2 * n), torch.eye(2 * n)]).double()
    found = latent(K, torch.linalg.cholesky(K), y, omega.expand(2 * n + 1, n), unit[:, :n], unit[:, n:])
    mean, sigma = dense_posterior(K, y, omega)
    torch.testing.assert_close(found[0], mean, rtol=0, atol=1e-9)
    spread = found[1:] - found[0]
    torch.testing.assert_close(spread.T @ spread, sigma, rtol=0, atol=1e-9)


def test_predictions_given_omega_are_those_of_the_dense_posterior() -> None:
    """E f* = k*^T K^-1 m and Var f* = k** - k*^T (K^-1 - K^-1 Sigma K^-1) k*, chain by chain."""
    x, new, y, omegas = example()
    K, cross = KERNEL.within(x), KERNEL.between(x, new)
    found = predict_latent(K, cross, KERNEL.output_scale, y, omegas)
    inverse = torch.linalg.inv(K)
    for chain, omega in enumerate(omegas):
        mean, sigma = dense_posterior(K, y, omega)
        variance = 8.0 - (cross * ((inverse - inverse @ sigma @ inverse) @ cross)).sum(0)
        torch.testing.assert_close(found.mean[chain], cross.T @ inverse @ mean, rtol=0, atol=1e-8)
        torch.testing.assert_close(found.variance[chain], variance, rtol=0, atol=1e-8)


def test_the_gradient_in_the_samples_is_that_of_finite_differences() -> None:
    x, new, y, omegas = example()

    def value(x: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        found = predict_latent(KERNEL.within(x), KERNEL.between(x, new), KERNEL.output_scale, y, omegas)
        return probability(found, "logarithm")

    assert torch.autograd.gradcheck(value, (x.requires_grad_(), new.requires_grad_()))


@pytest.mark.parametrize("variance", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("mean", [-4.0, 0.0, 2.5])
def test_the_quadrature_against_an_adaptive_one(mean: float, variance: float) -> None:
    def expectation(function: object) -> float:
        def density(f: float) -> float:
            return math.exp(-((f - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)

        width = 12 * math.sqrt(variance)
        return float(integrate.quad(lambda f: function(f) * density(f), mean - width, mean + width, limit=200)[0])  # type: ignore[operator]

    values = Values(*(torch.tensor([[v]], dtype=torch.float64) for v in (mean, variance)))
    found = float(probability(values, "probability"))
    assert found == pytest.approx(expectation(lambda f: 1 / (1 + math.exp(-f))), abs=2e-4)
    bound = float(probability(values, "logarithm"))
    assert bound == pytest.approx(math.exp(expectation(lambda f: -math.log1p(math.exp(-f)))), abs=2e-4)
    assert bound < found, "Jensen"


def test_probabilities_are_means_over_chains() -> None:
    values = Values(torch.tensor([[0.5], [-3.0]]).double(), torch.tensor([[1.0], [2.0]]).double())
    for link in ("probability", "logarithm"):
        each = [float(probability(Values(*(part[c : c + 1] for part in values)), link)) for c in range(2)]
        assert float(probability(values, link)) == pytest.approx(sum(each) / 2, abs=1e-14)


@pytest.mark.parametrize("sides", [[1], [1, 1], [1, 0]])
def test_chains_find_the_posterior_that_quadrature_finds(sides: list[int]) -> None:
    """One or two samples: moments of p(f | y) prop. to N(f; 0, K) prod sigma(+-f) by a product rule of 80 points each.

    20,000 independent chains of 40 sweeps. A mean fails beyond five standard errors, by chance once in 1.7 million.
    """
    n = len(sides)
    x, new = torch.tensor([[0.0], [0.6]]).double()[:n], torch.tensor([[0.9]]).double()
    y, kernel = torch.tensor(sides), Rbf(output_scale=4.0, length_scale=1.0, jitter=1e-3)
    K, cross = kernel.within(x), kernel.between(x, new)
    omega = gibbs(K, y, chains=20_000, sweeps=40, stream=torch.Generator().manual_seed(0))

    places, weights = np.polynomial.hermite_e.hermegauss(80)
    grid = torch.cartesian_prod(*[torch.from_numpy(places)] * n).reshape(-1, n)
    mass = torch.cartesian_prod(*[torch.from_numpy(weights)] * n).reshape(-1, n).prod(1)
    f = grid @ torch.linalg.cholesky(K).T
    mass = mass * torch.sigmoid(f * (2 * y - 1)).prod(1)
    mass = mass / mass.sum()
    assert_close_in_law(omega, mass @ (torch.tanh(f / 2) / (2 * f)))

    # f* given f is Gaussian; its probability is a mean over the grid of f, by the same quadrature over f*.
    slope = torch.linalg.solve(K, cross)
    rest = (4.0 - cross.T @ slope).squeeze()
    exact = mass @ torch.stack([probability(Values(m[None], rest[None, None]), "probability") for m in f @ slope])
    found = predict_latent(K, cross, 4.0, y, omega)
    each = torch.stack([probability(Values(*(part[c : c + 1] for part in found)), "probability") for c in range(4000)])
    assert_close_in_law(each, exact)


def assert_close_in_law(draws: torch.Tensor, expected: torch.Tensor) -> None:
    error = draws.std(0) / math.sqrt(len(draws))
    assert bool(((draws.mean(0) - expected).abs() < 5 * error).all()), (draws.mean(0), expected, error)
