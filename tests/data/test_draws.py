"""Random numbers for data: the same for ever, and distributed as they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedbayes.data.draws import Draws, rounded

# A test of a right distribution fails with this probability; seeds are fixed, so it fails always or never.
ERROR_RATE = 1e-4


def test_bits_are_those_of_pcg64_as_they_have_always_been() -> None:
    # Written down once: a change here changes every split and every generated dataset.
    assert Draws(0).uniform(3).tolist() == [0.6369616873214544, 0.2697867137638704, 0.04097352393619469]
    assert Draws(7, 3).shuffle(np.arange(6)).tolist() == Draws(7, 3).shuffle(np.arange(6)).tolist()


def test_paths_name_streams() -> None:
    streams = [Draws(*path).uniform(4).tolist() for path in ((0,), (1,), (0, 1), (0, 1, 0), (0, 0, 1), (0, 2))]
    assert len({tuple(stream) for stream in streams}) == len(streams)


def test_uniform_numbers_are_uniform_and_leave_out_both_ends() -> None:
    drawn = Draws(1).uniform(20_000)
    assert 0.0 < drawn.min() < drawn.max() < 1.0
    assert stats.kstest(drawn, "uniform").pvalue > ERROR_RATE


def test_normal_numbers_are_normal() -> None:
    assert stats.kstest(Draws(2).normal(100, 200).ravel(), "norm").pvalue > ERROR_RATE


def test_whole_numbers_are_below_their_bound_and_equally_likely() -> None:
    drawn = Draws(3).below(7, 14_000)
    assert set(drawn.tolist()) == set(range(7))
    assert stats.chisquare(np.bincount(drawn)).pvalue > ERROR_RATE


@pytest.mark.parametrize("alpha", [0.005, 0.1, 1.0, 10.0])
def test_dirichlet_shares_have_the_moments_of_the_law(alpha: float) -> None:
    count, repeats = 10, 4000
    shares = np.stack([Draws(4, i).dirichlet(alpha, count) for i in range(repeats)])
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(1), 1.0)
    mean, variance = 1 / count, (1 / count) * (1 - 1 / count) / (count * alpha + 1)
    # Five standard errors of a mean over `repeats` draws, for each of ten shares: error rate below 1e-5.
    np.testing.assert_allclose(shares.mean(0), mean, atol=5 * np.sqrt(variance / repeats))
    assert shares.var(0).mean() == pytest.approx(variance, rel=0.1)


def test_one_share_of_a_dirichlet_law_is_a_beta_law() -> None:
    first = np.array([Draws(5, i).dirichlet(0.5, 4)[0] for i in range(2000)])
    assert stats.kstest(first, stats.beta(0.5, 1.5).cdf).pvalue > ERROR_RATE


def test_rounded_values_do_not_see_a_last_digit() -> None:
    values = Draws(6).normal(1000)
    np.testing.assert_array_equal(rounded(values, 2**-20), rounded(values * (1 + 2**-52), 2**-20))
    assert abs(rounded(values, 2**-20) - values).max() <= 2**-21
