"""The Pólya-Gamma sampler against the law's known mean, variance and Laplace transform.

Each check compares a mean of 200,000 independent draws with its known value, and fails when they are more than five
standard errors apart: by chance once in 1.7 million checks. The seed is fixed, so a failure is a change of the code.
"""

from __future__ import annotations

import math

import pytest
import torch

from fedbayes.bayes.polya_gamma import polya_gamma, series_accepts

DRAWS = 200_000
TILTS = (0.0, 0.5, 2.0, 8.0, 30.0)
STANDARD_ERRORS = 5.0


def drawn(c: float, seed: int = 0) -> torch.Tensor:
    return polya_gamma(torch.full((DRAWS,), c, dtype=torch.float64), torch.Generator().manual_seed(seed))


def assert_mean(values: torch.Tensor, expected: float) -> None:
    error = float(values.std()) / math.sqrt(len(values))
    assert abs(float(values.mean()) - expected) < STANDARD_ERRORS * error


def known_mean(c: float) -> float:
    return math.tanh(c / 2) / (2 * c) if c else 0.25


def known_variance(c: float) -> float:
    return (math.sinh(c) - c) / (4 * c**3 * math.cosh(c / 2) ** 2) if c else 1 / 24


@pytest.mark.parametrize("c", TILTS)
def test_mean_and_variance(c: float) -> None:
    omega = drawn(c)
    assert omega.dtype == torch.float64 and bool((omega > 0).all())
    assert_mean(omega, known_mean(c))
    assert_mean((omega - known_mean(c)).square(), known_variance(c))


@pytest.mark.parametrize("c", TILTS)
@pytest.mark.parametrize("t", [0.1, 1.0, 5.0, 25.0, 100.0])
def test_laplace_transform(c: float, t: float) -> None:
    """E exp(-t omega) = cosh(c / 2) / cosh(sqrt((c^2 / 2 + t) / 2)); large t looks at the smallest draws."""
    assert_mean(torch.exp(-t * drawn(c, seed=1)), math.cosh(c / 2) / math.cosh(math.sqrt((c**2 / 2 + t) / 2)))


@pytest.mark.parametrize("x", [0.2, 0.4, 0.6, 0.639, 0.641, 0.8, 1.2])
def test_the_series_rejects_where_it_must(x: float) -> None:
    """Fewer than 6 in 1,000 proposals are rejected, too few for moments to show; so the bound itself is looked at.

    The density of J*(1, 0) is summed by both forms of its series, 60 terms each, of which the sampler uses one.
    """
    slow = sum((-1) ** n * math.pi * (n + 0.5) * math.exp(-((n + 0.5) ** 2) * math.pi**2 * x / 2) for n in range(60))
    near = [math.pi * (n + 0.5) * (2 / (math.pi * x)) ** 1.5 * math.exp(-2 * (n + 0.5) ** 2 / x) for n in range(60)]
    assert sum((-1) ** n * term for n, term in enumerate(near)) == pytest.approx(slow, rel=1e-12)
    proposal = near[0] if x < 0.64 else math.pi / 2 * math.exp(-(math.pi**2) * x / 8)
    bound, places = slow / proposal, torch.full((4,), x, dtype=torch.float64)
    heights = torch.tensor([0.1, bound - 1e-10, bound + 1e-10, 1.0], dtype=torch.float64)
    assert series_accepts(places, heights).tolist() == [True, True, False, False]


def test_where_the_density_is_pieced_together() -> None:
    """The share below the cut at c = 0, against the sum of exponentials that is the law's tail there.

    J*(1, 0) has density sum_n (-1)^n pi (n + 1/2) exp(-(n + 1/2)^2 pi^2 x / 2), which is integrated term by term.
    """
    cut = 0.64
    terms = [(-1) ** n / ((n + 0.5) * math.pi / 2) * math.exp(-((n + 0.5) ** 2) * math.pi**2 * cut / 2)
             for n in range(40)]  # fmt: skip
    assert_mean((4 * drawn(0.0, seed=2) > cut).double(), sum(terms))


def test_each_entry_has_its_own_tilt_and_the_sign_does_not_matter() -> None:
    c = torch.tensor([[0.0, 2.0], [-2.0, -30.0]], dtype=torch.float64).expand(DRAWS // 4, 2, 2)
    omega = polya_gamma(c, torch.Generator().manual_seed(3))
    assert omega.shape == c.shape
    for row in range(2):
        for column in range(2):
            assert_mean(omega[:, row, column], known_mean(abs(float(c[0, row, column]))))


def test_a_far_tilt_and_float32() -> None:
    omega = polya_gamma(torch.full((1000,), 2000.0), torch.Generator().manual_seed(4))
    assert omega.dtype == torch.float32
    assert_mean(omega, 1 / 4000)


def test_the_same_stream_gives_the_same_bits() -> None:
    assert torch.equal(drawn(1.0, seed=5), drawn(1.0, seed=5))
    assert not torch.equal(drawn(1.0, seed=5), drawn(1.0, seed=6))


@pytest.mark.parametrize("c", [math.nan, math.inf])
def test_what_would_never_end_is_refused(c: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        polya_gamma(torch.tensor([1.0, c]), torch.Generator().manual_seed(0))
