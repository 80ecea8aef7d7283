r"""Neurons of several networks matched to common ones by a Beta-Bernoulli process (Yurochkin et al. 2019).

Generative model: common neurons (atoms) $\theta_i \sim N(\mu_0, \mathrm{diag}(1/\tau_0))$, as many as a process of mass
$\gamma$ makes; network $j$ has a noisy copy of some of them, $v_{jl} \sim N(\theta_{c(j,l)}, \mathrm{diag}(1/\tau_j))$,
no atom twice. Given the assignment $c$, an atom's posterior mean is $A_i / T_i$ with

    A_i = mu_0 tau_0 + sum of v_jl tau_j over the neurons matched to it,    T_i = tau_0 + sum of their tau_j.

The assignment is improved network by network. With network $j$ taken out, $J$ networks in all and $m_i$ others matched
to atom $i$, matching its neuron $v$ to that atom gains

    sum_d [ (A_i + v tau_j)^2 / (T_i + tau_j) - A_i^2 / T_i ] + p log(m_i / (J - m_i)),

and to the k-th new atom

    sum_d [ (mu_0 tau_0 + v tau_j)^2 / (tau_0 + tau_j) - (mu_0 tau_0)^2 / tau_0 ] - 2 log k + 2 log(gamma / J).

The best assignment of all its neurons is a linear assignment problem. $p$ is `popularity`; $m_i$ counts at most
`count_cap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class Prior(NamedTuple):
    """What is believed before any network is seen; the vectors have an entry for each number of a neuron."""

    mean: Array  # mu_0
    precision: Array  # tau_0
    gamma: float
    popularity: float
    count_cap: int


class Neurons(NamedTuple):
    """The networks' neurons and how precise each network is about each number."""

    vectors: Array  # [network, neuron, number]
    precisions: Array  # [network, number]


class Atoms(NamedTuple):
    """The common neurons, as sums that a network's neurons can be added to and taken from."""

    weighted: Array  # A, [atom, number]
    precision: Array  # T, [atom, number]
    counts: Places  # networks matched to each

    @property
    def means(self) -> Array:
        """Posterior means, `[atom, number]`."""
        return self.weighted / self.precision


class Matching(NamedTuple):
    """Which atom each neuron is matched to, and the atoms."""

    assignment: Places  # [network, neuron]
    atoms: Atoms


def matched(neurons: Neurons, assignment: Places, orders: Iterable[Sequence[int]], prior: Prior, cap: int) -> Matching:
    """Sweeps over the networks, each taken out and matched anew.

    Args:
        neurons: of all networks.
        assignment: `[network, neuron]` to start from; -1 throughout for a network not matched so far.
        orders: of the networks in each sweep; a network may be missing and then keeps its assignment.
        prior: see above.
        cap: the largest number of atoms, at least as many as a network has neurons.
    """
    atoms = gathered(neurons, assignment, prior)
    for order in orders:
        for network in order:
            atoms, assignment = _without(network, atoms, neurons, assignment)
            atoms, own = _with(network, atoms, neurons, prior, cap)
            assignment = assignment.copy()
            assignment[network] = own
    return Matching(assignment, atoms)


def gathered(neurons: Neurons, assignment: Places, prior: Prior) -> Atoms:
    """The atoms under an assignment that leaves none of them out."""
    atoms = _new(prior, int(assignment.max(initial=-1)) + 1)
    for vectors, precision, own in zip(neurons.vectors, neurons.precisions, assignment, strict=True):
        if own[0] >= 0:
            atoms = _added(atoms, own, vectors, precision, 1)
    return atoms


def gains(atoms: Atoms, vectors: Array, precision: Array, prior: Prior, networks: int, most_new: int) -> Array:
    """What is gained by matching each neuron of a network to each atom, then to each of `most_new` new ones.

    Squares are multiplied out, so that no array has an axis for neurons, atoms and numbers at once.

    Args:
        atoms: without the network.
        vectors: the network's neurons, `[neuron, number]`.
        precision: the network's, `[number]`.
        prior: see above.
        networks: J, this one included.
        most_new: how many new atoms there may be.
    """
    own = vectors * precision
    shared = 1 / (atoms.precision + precision)
    fit = 2 * own @ (atoms.weighted * shared).T + own**2 @ shared.T
    fit += (atoms.weighted**2 * (shared - 1 / atoms.precision)).sum(1)
    counts = np.minimum(atoms.counts, prior.count_cap)
    existing = fit + prior.popularity * np.log(counts / (networks - counts))
    start = prior.mean * prior.precision
    alone = ((start + own) ** 2 / (prior.precision + precision) - start**2 / prior.precision).sum(1)
    new = 2 * np.log(prior.gamma / networks) - 2 * np.log(np.arange(1, most_new + 1))
    return np.hstack([existing, alone[:, None] + new])


def _new(prior: Prior, number: int) -> Atoms:
    """Atoms that nobody is matched to."""
    weighted, precision = (np.tile(row, (number, 1)) for row in (prior.mean * prior.precision, prior.precision))
    return Atoms(weighted, precision, np.zeros(number, dtype=np.int64))


def _added(atoms: Atoms, own: Places, vectors: Array, precision: Array, sign: int) -> Atoms:
    """Atoms with a network's neurons added, or taken away where `sign` is -1."""
    sums, precisions, counts = atoms.weighted.copy(), atoms.precision.copy(), atoms.counts.copy()
    sums[own] += sign * vectors * precision
    precisions[own] += sign * precision
    counts[own] += sign
    return Atoms(sums, precisions, counts)


def _without(network: int, atoms: Atoms, neurons: Neurons, assignment: Places) -> tuple[Atoms, Places]:
    """Atoms and assignment without a network; atoms that were its alone are gone and the others move up."""
    own = assignment[network]
    if own[0] < 0:
        return atoms, assignment
    left = _added(atoms, own, neurons.vectors[network], neurons.precisions[network], -1)
    stays = left.counts > 0
    moved = np.where(assignment < 0, -1, (np.cumsum(stays) - 1)[assignment])
    moved[network] = -1
    return Atoms(left.weighted[stays], left.precision[stays], left.counts[stays]), moved


def _with(network: int, atoms: Atoms, neurons: Neurons, prior: Prior, cap: int) -> tuple[Atoms, Places]:
    """Atoms with a network matched to them in the best way, and the atom of each of its neurons."""
    vectors, precision = neurons.vectors[network], neurons.precisions[network]
    existing = len(atoms.counts)
    with np.errstate(over="ignore", invalid="ignore"):
        gain = gains(atoms, vectors, precision, prior, len(neurons.vectors), min(len(vectors), cap - existing))
    # Weights of a run that diverged are not numbers: any assignment hands that on, and the run says so.
    _, chosen = linear_sum_assignment(np.nan_to_num(gain, nan=0.0, posinf=0.0, neginf=0.0), maximize=True)
    is_new = chosen >= existing
    own = chosen.astype(np.int64)
    own[is_new] = existing + np.argsort(np.argsort(chosen[is_new]))
    fresh = _new(prior, int(is_new.sum()))
    grown = Atoms(
        np.vstack([atoms.weighted, fresh.weighted]),
        np.vstack([atoms.precision, fresh.precision]),
        np.hstack([atoms.counts, fresh.counts]),
    )
    return _added(grown, own, vectors, precision, 1), own
