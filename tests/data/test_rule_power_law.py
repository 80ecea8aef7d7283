"""FedProx's MNIST and FEMNIST."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealing import Labels, assert_same, deal, held, shuffled_labels
from fedbayes.data.draws import Draws
from fedbayes.data.rules.types import SIZES
from fedbayes.reading import ConfigError
from fedbayes.split_rules import PowerLawSplit

MNIST = {"clients": 1000, "labels_per_client": 2, "sizes": "shares", "mu": 0.0, "sigma": 2.0, "least": 5}
FEMNIST = {"clients": 200, "labels_per_client": 3, "sizes": "samples", "mu": 4.0, "sigma": 1.0, "least": 5}
DIGITS = [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]


def make_split(numbers: dict[str, object], **changes: object) -> PowerLawSplit:
    return PowerLawSplit.model_validate({"rule": "power-law", "train_share": 0.9} | numbers | changes)


@st.composite
def feasible(draw: st.DrawFn) -> tuple[Labels, PowerLawSplit, int]:
    classes = draw(st.integers(1, 6))
    k = draw(st.integers(1, classes))
    split = make_split(
        MNIST if draw(st.booleans()) else FEMNIST,
        clients=draw(st.integers(1, 12)),
        labels_per_client=k,
        mu=draw(st.sampled_from([0.0, 2.0])),
        least=draw(st.integers(2, 5)),
    )
    counts = [12 * 5 + draw(st.integers(1, 60)) for _ in range(classes)]
    return shuffled_labels(counts, draw(st.integers(0, 99))), split, draw(st.integers(0, 2**32))


@settings(deadline=None, max_examples=100)
@given(feasible())
def test_clients_have_consecutive_labels_their_least_and_nobody_elses_samples(
    case: tuple[Labels, PowerLawSplit, int],
) -> None:
    labels, split, seed = case
    clients = deal(labels, split, seed)
    classes, k = int(labels.max()) + 1, split.labels_per_client
    used = [i for own in held(clients) for i in own]
    assert len(used) == len(set(used))
    for u, (own, train) in enumerate(zip(held(clients), clients.train, strict=True)):
        counts = np.bincount(labels[own], minlength=classes)
        assert set(np.flatnonzero(counts).tolist()) == {(u + j) % classes for j in range(k)}
        assert counts[counts > 0].min() >= (split.least if split.sizes == "shares" else 2)
        assert len(train) == min(max(1, int(0.9 * len(own) + 1e-9)), len(own) - 1)
    assert_same(clients, deal(labels, split, seed))


def test_mnist_has_the_sizes_that_fedprox_publishes() -> None:
    """1,000 clients, 69,035 samples, mean 69, standard deviation 106 (heavy tails: it varies with the seed)."""
    labels = shuffled_labels(DIGITS)
    found = [[len(own) for own in held(deal(labels, make_split(MNIST), seed))] for seed in range(3)]
    for sizes in found:
        assert min(sizes) >= 10
        assert 66_000 < sum(sizes) <= 70_000
        assert 60 < np.std(sizes) < 250
    assert np.mean(found) == pytest.approx(69, abs=2)


def test_femnist_sizes_are_log_normal() -> None:
    """200 clients of mean e^4.5 + 5, about 95 (published: 92, standard deviation 159)."""
    labels = shuffled_labels([8000] * 10)
    split = make_split(FEMNIST)
    exact = [np.exp(4.0 + Draws(0, client, SIZES).normal(1)[0]) + 5 for client in range(200)]
    found = [len(own) for own in held(deal(labels, split, 0))]
    # FedProx: max(2, int(size / 3)) of each of three classes.
    assert found == [3 * max(2, int(size / 3)) for size in exact]
    sizes = np.concatenate([[len(own) for own in held(deal(labels, make_split(FEMNIST), seed))] for seed in range(10)])
    assert np.log(sizes.mean() - 5) == pytest.approx(4.5, abs=0.1)
    assert np.median(sizes) == pytest.approx(np.exp(4) + 5, rel=0.1)


def test_classes_too_small_for_what_everybody_gets_are_refused() -> None:
    with pytest.raises(ConfigError, match="class 0 must give 200 clients 5 samples each beforehand, but has only 900"):
        deal(np.repeat(np.arange(10), 900), make_split(MNIST), 0)
    with pytest.raises(ConfigError, match="least is 0: every client needs a training and a test sample beforehand"):
        deal(np.repeat(np.arange(10), 9000), make_split(MNIST, least=0), 0)
    with pytest.raises(ConfigError, match="labels_per_client is 2, but the dataset has only 1 classes"):
        deal(np.zeros(9000, np.int64), make_split(MNIST), 0)
