"""Matching of neurons: gains by plain loops, optima by trying everything, planted assignments."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from fedbayes.bayes.neuron_matching import Atoms, Matching, Neurons, Prior, gains, gathered, matched

SIZE = 7


def prior(size: int = SIZE, **changes: Any) -> Prior:
    mean = np.zeros(size)
    mean[-2] = 0.1
    return Prior(mean, np.full(size, 1.0), gamma=1.0, popularity=1.0, count_cap=10)._replace(**changes)


def unmatched(networks: int, width: int) -> Any:
    return np.full((networks, width), -1, dtype=np.int64)


def in_turn(networks: int, sweeps: int = 4) -> list[list[int]]:
    return [list(range(networks))] * sweeps


def random_neurons(stream: np.random.Generator, networks: int, width: int) -> Neurons:
    return Neurons(stream.normal(size=(networks, width, SIZE)), stream.uniform(0.1, 2.0, size=(networks, SIZE)))


def slow_gains(atoms: Atoms, vectors: Any, tau: Any, belief: Prior, networks: int, most_new: int) -> list[list[float]]:
    """The formula as it is printed, a number at a time."""
    found = []
    for v in vectors:
        row = []
        for a, t, m in zip(atoms.weighted, atoms.precision, atoms.counts.tolist(), strict=True):
            m = min(m, belief.count_cap)
            total = belief.popularity * math.log(m / (networks - m))
            for d in range(SIZE):
                total += (a[d] + v[d] * tau[d]) ** 2 / (t[d] + tau[d]) - a[d] ** 2 / t[d]
            row.append(total)
        for k in range(1, most_new + 1):
            total = -2 * math.log(k) + 2 * math.log(belief.gamma / networks)
            for d in range(SIZE):
                start, tau_0 = belief.mean[d] * belief.precision[d], belief.precision[d]
                total += (start + v[d] * tau[d]) ** 2 / (tau_0 + tau[d]) - start**2 / tau_0
            row.append(total)
        found.append(row)
    return found


@pytest.mark.parametrize(("popularity", "count_cap"), [(1.0, 10), (2.0, 10), (1.0, 2)])
def test_gains_are_the_formula(popularity: float, count_cap: int) -> None:
    stream = np.random.default_rng(0)
    belief = prior(gamma=3.0, popularity=popularity, count_cap=count_cap, precision=stream.uniform(0.2, 2.0, SIZE))
    atoms = Atoms(stream.normal(size=(4, SIZE)), stream.uniform(1.0, 3.0, size=(4, SIZE)), np.array([1, 2, 3, 12]))
    vectors, tau = stream.normal(size=(3, SIZE)), stream.uniform(0.0, 2.0, SIZE)
    tau[0] = 0.0  # a class that the network has not seen
    found = gains(atoms, vectors, tau, belief, networks=14, most_new=3)
    np.testing.assert_allclose(found, slow_gains(atoms, vectors, tau, belief, 14, 3), rtol=1e-12, atol=1e-12)


SOME_ALIKE = prior(gamma=20.0)


def some_alike(seed: int) -> tuple[Neurons, Matching]:
    """Three networks of three neurons, two of the last one's near the first one's; the last is not matched yet."""
    stream = np.random.default_rng(seed)
    neurons = random_neurons(stream, 3, 3)
    neurons.vectors[2, :2] = neurons.vectors[0, 1:] + 0.1 * stream.normal(size=(2, SIZE))
    return neurons, matched(neurons, unmatched(3, 3), [[0, 1]], SOME_ALIKE, cap=9)


@pytest.mark.parametrize("seed", range(20))
def test_one_network_is_matched_as_well_as_can_be(seed: int) -> None:
    neurons, others = some_alike(seed)
    table = slow_gains(others.atoms, neurons.vectors[2], neurons.precisions[2], SOME_ALIKE, 3, 3)
    columns = range(len(others.atoms.counts) + 3)
    best = max(sum(table[at][i] for at, i in enumerate(way)) for way in itertools.permutations(columns, 3))
    found = matched(neurons, others.assignment, [[2]], SOME_ALIKE, cap=9).assignment[2].tolist()
    assert math.isclose(sum(table[at][i] for at, i in enumerate(found)), best, rel_tol=1e-12)
    assert len(set(found)) == 3, "no two neurons of a network are one atom"


def test_some_of_what_was_tried_is_new_and_some_is_not() -> None:
    kinds = set()
    for seed in range(20):
        neurons, others = some_alike(seed)
        own = matched(neurons, others.assignment, [[2]], SOME_ALIKE, cap=9).assignment[2]
        kinds |= set((own >= len(others.atoms.counts)).tolist())
    assert kinds == {True, False}


@pytest.mark.parametrize("seed", range(5))
def test_planted_permutations_are_recovered(seed: int) -> None:
    stream = np.random.default_rng(seed)
    planted = stream.normal(size=(12, SIZE))
    orders = np.array([stream.permutation(12) for _ in range(6)])
    neurons = Neurons(planted[orders] + 1e-3 * stream.normal(size=(6, 12, SIZE)), np.ones((6, SIZE)))
    found = matched(neurons, unmatched(6, 12), in_turn(6), prior(), cap=100)
    assert found.atoms.counts.tolist() == [6] * 12
    # Atoms have an order of their own: the first network says which atom is which planted neuron.
    atom_of = np.empty(12, dtype=np.int64)
    atom_of[orders[0]] = found.assignment[0]
    np.testing.assert_array_equal(found.assignment, atom_of[orders])


def test_identical_networks_are_one() -> None:
    stream = np.random.default_rng(1)
    vectors = stream.normal(size=(10, SIZE))
    neurons = Neurons(np.stack([vectors] * 5), np.full((5, SIZE), 0.5))
    found = matched(neurons, unmatched(5, 10), in_turn(5), prior(precision=np.full(SIZE, 1e-12)), cap=50)
    assert len(found.atoms.counts) == 10
    assert (found.assignment == found.assignment[0]).all()
    np.testing.assert_allclose(found.atoms.means[found.assignment[0]], vectors, rtol=0, atol=1e-10)


def test_an_atom_is_the_posterior_mean_of_a_gaussian() -> None:
    neurons = Neurons(np.array([[[3.0]], [[5.0]]]), np.array([[0.5], [2.0]]))
    belief = prior(2)._replace(mean=np.array([1.0]), precision=np.array([0.25]))
    atoms = gathered(neurons, np.zeros((2, 1), dtype=np.int64), belief)
    assert atoms.counts.tolist() == [2]
    np.testing.assert_allclose(atoms.means, [[(0.25 * 1 + 0.5 * 3 + 2 * 5) / (0.25 + 0.5 + 2)]], rtol=1e-15)


@pytest.mark.parametrize("cap", [4, 5, 7])
def test_the_cap_is_kept_and_reached(cap: int) -> None:
    # Networks far apart and a large mass: each would like neurons of its own.
    neurons = random_neurons(np.random.default_rng(2), 8, 4)
    neurons.vectors[:] *= 30
    free = matched(neurons, unmatched(8, 4), in_turn(8), prior(gamma=1e6), cap=1000)
    assert len(free.atoms.counts) > cap
    found = matched(neurons, unmatched(8, 4), in_turn(8), prior(gamma=1e6), cap=cap)
    assert len(found.atoms.counts) == cap
    assert all(len(set(own)) == 4 for own in found.assignment.tolist())


def test_sums_after_many_sweeps_are_those_of_the_assignment() -> None:
    neurons, belief = random_neurons(np.random.default_rng(3), 6, 5), prior(gamma=5.0)
    found = matched(neurons, unmatched(6, 5), in_turn(6, sweeps=20), belief, cap=30)
    places = set(found.assignment.flatten().tolist())
    assert places == set(range(len(found.atoms.counts))), "every atom is somebody's"
    for ours, anew in zip(found.atoms, gathered(neurons, found.assignment, belief), strict=True):
        np.testing.assert_allclose(ours, anew, rtol=1e-11, atol=1e-11)


def test_who_is_in_no_sweep_stays_with_the_same_neurons() -> None:
    neurons, belief = random_neurons(np.random.default_rng(4), 4, 5), prior(gamma=5.0)
    first = matched(neurons, unmatched(4, 5), in_turn(4), belief, cap=30)
    others = neurons._replace(vectors=np.concatenate([neurons.vectors[:2], neurons.vectors[2:] + 3.0]))
    second = matched(others, first.assignment, [[3, 2]] * 3, belief, cap=30)
    together = first.assignment[0][:, None] == first.assignment[1][None]
    np.testing.assert_array_equal(second.assignment[0][:, None] == second.assignment[1][None], together)
    anew = gathered(others, second.assignment, belief)
    np.testing.assert_allclose(second.atoms.weighted, anew.weighted, rtol=1e-11, atol=1e-11)


def test_networks_that_are_no_numbers_are_handed_on() -> None:
    neurons = random_neurons(np.random.default_rng(5), 3, 4)
    neurons.vectors[1, 2] = np.nan
    found = matched(neurons, unmatched(3, 4), in_turn(3), prior(), cap=20)
    assert np.isnan(found.atoms.means[found.assignment[1, 2]]).all()
