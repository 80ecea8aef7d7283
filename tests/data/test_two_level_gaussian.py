"""Self-FL's two-level Gaussian data: their law, their numbering and their bytes.

The data come from a fixed seed, so every test either always passes or always fails. Bounds are set so that data of the
right law from another seed would break one of them with probability below 1e-4 (a normal variable beyond 3.9 standard
deviations), and data of a wrong law nearly always.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import special, stats

from fedbayes.config import DatasetFacts
from fedbayes.data import two_level_gaussian as data
from fedbayes.data.fetch import fetch, load
from fedbayes.data.sources import RawData

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))
USERS = 200 * 20
BOUND = 3.9
LEAST_P = 1e-4

# As the paper prints them: sigma_0^2, and the range of N_m.
PRINTED = {1: (0.001, range(10, 21)), 2: (1.0, range(10, 201))}


@pytest.fixture(scope="module", params=[1, 2])
def case(request: pytest.FixtureRequest) -> tuple[int, RawData]:
    return request.param, data.generate(request.param)


def test_the_bytes_are_the_committed_ones(case: tuple[int, RawData], tmp_path: Path) -> None:
    number, raw = case
    name = f"two-level-gaussian-{number}"
    fetch(name, DatasetFacts.model_validate(FACTS[name]), tmp_path, None)
    found = load(tmp_path)
    assert found.manifest["sha256"] == FACTS[name]["sha256"]
    np.testing.assert_array_equal(found.inputs, raw.inputs)
    assert (found.inputs.dtype, found.inputs.shape[1:], set(found.labels.tolist())) == (np.float64, (1,), {0})
    assert {table: array.dtype for table, array in found.tables.items()} == {
        "users": np.int64,
        "theta": np.float64,
        "theta0": np.float64,
        "theta_fl": np.float64,
        "theta_g": np.float64,
    }
    assert found.tables["theta0"].tolist() == [1.6] * 200
    assert FACTS[name]["embedded"] == name


def test_a_last_digit_more_changes_no_value(case: tuple[int, RawData], monkeypatch: pytest.MonkeyPatch) -> None:
    number, raw = case
    exact = special.ndtri
    monkeypatch.setattr("fedbayes.data.draws.special.ndtri", lambda share: np.nextafter(exact(share), np.inf))
    other = data.generate(number)
    np.testing.assert_array_equal(other.inputs, raw.inputs)
    np.testing.assert_array_equal(other.tables["theta"], raw.tables["theta"])


def test_users_are_numbered_by_repeat_and_then_client(case: tuple[int, RawData]) -> None:
    number, raw = case
    users = raw.tables["users"]
    assert (np.diff(users) >= 0).all() and set(users.tolist()) == set(range(USERS))
    alone = data._client(number, 3, 7)
    assert raw.tables["theta"][3 * 20 + 7] == alone[0]
    np.testing.assert_array_equal(raw.inputs[users == 3 * 20 + 7, 0], alone[1])


def test_the_first_repeats_are_the_shorter_dataset(case: tuple[int, RawData]) -> None:
    number, raw = case
    short = data.generate(number, repeats=3)
    rows = len(short.labels)
    np.testing.assert_array_equal(short.inputs, raw.inputs[:rows])
    np.testing.assert_array_equal(short.tables["users"], raw.tables["users"][:rows])
    for table, count in (("theta", 60), ("theta_fl", 60), ("theta0", 3), ("theta_g", 3)):
        np.testing.assert_array_equal(short.tables[table], raw.tables[table][:count])
    assert raw.tables["users"][rows] == 60


def test_sizes_are_uniform_on_the_printed_range(case: tuple[int, RawData]) -> None:
    number, raw = case
    sizes = np.bincount(raw.tables["users"])
    allowed = PRINTED[number][1]
    assert (sizes.min(), sizes.max()) == (allowed[0], allowed[-1])
    counts = np.bincount(sizes, minlength=allowed[-1] + 1)[allowed[0] :]
    assert stats.chisquare(counts).pvalue > LEAST_P


def test_client_means_are_normal_with_the_printed_moments(case: tuple[int, RawData]) -> None:
    number, raw = case
    standard = (raw.tables["theta"] - 1.6) / np.sqrt(PRINTED[number][0])
    assert abs(standard.mean()) < BOUND / np.sqrt(USERS)
    # The variance of n squared normal variables' mean is 2 / n.
    assert abs((standard**2).mean() - 1) < BOUND * np.sqrt(2 / USERS)
    assert stats.kstest(standard, "norm").pvalue > LEAST_P


def test_samples_are_normal_around_their_clients_mean_with_variance_a_tenth(case: tuple[int, RawData]) -> None:
    _, raw = case
    standard = (raw.inputs[:, 0] - raw.tables["theta"][raw.tables["users"]]) / np.sqrt(0.1)
    assert abs(standard.mean()) < BOUND / np.sqrt(len(standard))
    assert abs((standard**2).mean() - 1) < BOUND * np.sqrt(2 / len(standard))
    assert stats.kstest(standard, "norm").pvalue > LEAST_P


def test_local_estimates_have_variance_a_tenth_by_size_and_errors_of_their_own(case: tuple[int, RawData]) -> None:
    _, raw = case
    means, counts = data.local_estimates(raw.inputs, raw.tables["users"])
    errors = (means - raw.tables["theta"].reshape(200, 20)) * np.sqrt(counts / 0.1)
    assert abs((errors**2).mean() - 1) < BOUND * np.sqrt(2 / USERS)
    # Streams of neighbouring clients and repeats must not resemble each other.
    for one, other in ((errors[:, 1:], errors[:, :-1]), (errors[1:], errors[:-1])):
        assert abs((one * other).mean()) < BOUND / np.sqrt(one.size)


def test_the_two_cases_share_no_draws() -> None:
    thetas = [(data.generate(n, 10).tables["theta"] - 1.6) / np.sqrt(PRINTED[n][0]) for n in (1, 2)]
    assert abs(np.corrcoef(thetas)[0, 1]) < BOUND / np.sqrt(200)


def test_local_estimates_are_those_of_a_plain_loop() -> None:
    raw = data.generate(2, repeats=4)
    of_user: dict[int, list[float]] = defaultdict(list)
    for (value,), user in zip(raw.inputs.tolist(), raw.tables["users"].tolist(), strict=True):
        of_user[user].append(value)
    means, counts = data.local_estimates(raw.inputs, raw.tables["users"])
    assert means.shape == counts.shape == (4, 20)
    for repeat in range(4):
        for client in range(20):
            own = of_user[repeat * 20 + client]
            assert counts[repeat, client] == len(own)
            assert means[repeat, client] == pytest.approx(sum(own) / len(own), rel=1e-14)


def test_estimates_do_not_depend_on_the_order_of_the_samples() -> None:
    raw = data.generate(1, repeats=2)
    order = np.random.default_rng(0).permutation(len(raw.labels))
    one = data.local_estimates(raw.inputs, raw.tables["users"])
    two = data.local_estimates(raw.inputs[order], raw.tables["users"][order])
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_allclose(one.means, two.means, rtol=1e-14)


def test_posterior_means_are_those_of_a_plain_loop(case: tuple[int, RawData]) -> None:
    number, raw = case
    between = PRINTED[number][0]
    means, counts = data.local_estimates(raw.inputs, raw.tables["users"])
    for repeat in (0, 199):
        z, within = means[repeat], [0.1 / n for n in counts[repeat]]
        w = [1 / (between + own) for own in within]
        common = sum(w[k] * z[k] for k in range(20)) / sum(w)
        assert raw.tables["theta_g"][repeat] == pytest.approx(common, abs=1e-7)
        for m in range(20):
            others = [k for k in range(20) if k != m]
            upper = z[m] / within[m] + sum(w[k] * z[k] for k in others)
            lower = 1 / within[m] + sum(w[k] for k in others)
            assert raw.tables["theta_fl"][20 * repeat + m] == pytest.approx(upper / lower, abs=1e-7)
