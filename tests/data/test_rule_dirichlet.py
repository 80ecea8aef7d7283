"""Dirichlet splits under both laws, and newcomers dealt from the other part of a dataset."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealing import Labels, assert_same, deal, held, shuffled_labels
from fedbayes.data.draws import Draws
from fedbayes.data.rules.types import SHARES
from fedbayes.reading import ConfigError
from fedbayes.split_rules import DirichletSplit, JoinedSplit


def make_split(**changes: object) -> DirichletSplit:
    numbers = {"clients": 5, "alpha": 0.5, "law": "class", "min_samples": 2, "train_share": 0.5}
    return DirichletSplit.model_validate({"rule": "dirichlet"} | numbers | changes)


@st.composite
def feasible(draw: st.DrawFn) -> tuple[Labels, DirichletSplit, int]:
    clients = draw(st.integers(1, 8))
    law = draw(st.sampled_from(["class", "client"]))
    counts = [draw(st.integers(4 * clients, 60)) for _ in range(draw(st.integers(1, 6)))]
    split = make_split(
        clients=clients,
        law=law,
        alpha=draw(st.sampled_from([3.0, 30.0]) if law == "class" else st.sampled_from([0.01, 0.3, 1.0, 30.0])),
        samples_per_client=draw(st.none() | st.integers(2, 4)) if law == "client" else None,
        train_share=draw(st.sampled_from([0.1, 0.5, 0.9])),
    )
    return shuffled_labels(counts, draw(st.integers(0, 99))), split, draw(st.integers(0, 2**32))


@settings(deadline=None, max_examples=150)
@given(feasible())
def test_the_split_is_a_disjoint_cover_of_what_it_claims(case: tuple[Labels, DirichletSplit, int]) -> None:
    labels, split, seed = case
    clients = deal(labels, split, seed)
    used = [i for own in held(clients) for i in own]
    assert len(used) == len(set(used))
    sizes = [len(own) for own in held(clients)]
    if split.law == "class":
        assert len(used) == len(labels)
        assert min(sizes) >= split.min_samples
    else:
        assert set(sizes) == {split.samples_per_client or len(labels) // split.clients}
    for train, test in zip(clients.train, clients.test, strict=True):
        own = len(train) + len(test)
        assert len(train) == min(max(1, int(split.train_share * own + 1e-9)), own - 1)
    assert_same(clients, deal(labels, split, seed))


def test_a_client_of_the_client_law_has_the_counts_of_its_own_vector() -> None:
    labels = np.repeat(np.arange(10), 10_000)
    split = make_split(law="client", clients=20, samples_per_client=400)
    clients = deal(labels, split, 1)
    for client, own in enumerate(held(clients)):
        exact = 400 * Draws(1, client, SHARES).dirichlet(0.5, 10)
        assert abs(np.bincount(labels[own], minlength=10) - exact).max() < 1.0


def test_the_class_law_has_the_moments_of_the_dirichlet_law() -> None:
    """With 20 clients and alpha 5 hardly a client is cut off: shares have mean 1/20 and the law's variance."""
    labels = np.repeat(np.arange(10), 2000)
    split = make_split(clients=20, alpha=5.0)
    shares = np.array(
        [
            np.bincount(labels[own], minlength=10)[0] / 2000
            for seed in range(200)
            for own in held(deal(labels, split, seed))
        ]
    )
    assert shares.mean() == pytest.approx(0.05)
    assert shares.var() == pytest.approx(0.05 * 0.95 / (20 * 5 + 1), rel=0.1)


def test_small_alpha_gives_few_labels_and_large_alpha_all() -> None:
    labels = np.repeat(np.arange(10), 1000)
    few, many = (
        deal(labels, make_split(law="client", clients=10, samples_per_client=200, alpha=alpha), 0)
        for alpha in (0.001, 100.0)
    )
    top = [np.bincount(labels[own]).max() / 200 for own in held(few)]
    assert np.median(top) > 0.95
    assert all(len(set(labels[own].tolist())) == 10 for own in held(many))


def test_a_size_that_no_draw_reaches_is_refused_with_what_would_be_feasible() -> None:
    labels = np.repeat(np.arange(3), 40)
    with pytest.raises(ConfigError) as caught:
        deal(labels, make_split(clients=6, alpha=0.01, min_samples=19), 0)
    sentence = str(caught.value)
    assert "alpha 0.01 gave 6 clients of at least 19 samples (min_samples) in none of 1000 draws" in sentence
    feasible = int(re.search(r"min_samples at most (\d+), or a larger alpha", sentence)[1])  # type: ignore[index]
    deal(labels, make_split(clients=6, alpha=0.01, min_samples=max(feasible, 1)), 0)


def test_more_than_there_is_is_refused_before_any_draw() -> None:
    with pytest.raises(
        ConfigError, match=r"5 clients of at least 9 samples need 45, but there are only 40; feasible: at most 8"
    ):
        deal(np.repeat(np.arange(4), 10), make_split(min_samples=9), 0)
    with pytest.raises(ConfigError, match="samples_per_client belongs to the law 'client'"):
        deal(np.repeat(np.arange(4), 10), make_split(samples_per_client=3), 0)


def joined(**new: object) -> JoinedSplit:
    both = {
        "trained": make_split(pool="train").model_dump(),
        "new": make_split(pool="test", clients=3, **new).model_dump(),
    }
    return JoinedSplit.model_validate({"rule": "joined"} | both)


def test_newcomers_of_a_joined_split_come_from_the_test_part_alone() -> None:
    labels = np.tile(np.arange(4), 100)
    clients = deal(labels, joined(alpha=1.0), 0, test_per_class=[25] * 4)
    assert joined().held_out() == (5, 6, 7)
    assert sorted(i for own in held(clients)[:5] for i in own) == list(range(300))
    assert sorted(i for own in held(clients)[5:] for i in own) == list(range(300, 400))


def test_clients_that_train_do_not_depend_on_the_newcomers() -> None:
    labels = np.tile(np.arange(4), 100)
    first, second = (deal(labels, joined(alpha=alpha), 0, test_per_class=[25] * 4) for alpha in (0.5, 1.0))
    assert held(first)[:5] == held(second)[:5]
    assert held(first)[5:] != held(second)[5:]


def test_parts_that_overlap_are_refused() -> None:
    wrong = joined().model_copy(update={"new": make_split(pool="train")})
    with pytest.raises(ConfigError, match="must deal out 'train' and 'test'; found 'train' and 'train'"):
        deal(np.tile(np.arange(4), 100), wrong, 0, test_per_class=[25] * 4)
    with pytest.raises(ConfigError, match="new: 3 clients of at least 40 samples need 120, but there are only 100"):
        deal(np.tile(np.arange(4), 100), joined(min_samples=40), 0, test_per_class=[25] * 4)
