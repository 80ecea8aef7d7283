"""Natural users, as LEAF samples them, and users grouped into clients; equal random shares beside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealing import Labels, assert_same, deal, held
from fedbayes.reading import ConfigError
from fedbayes.split_rules import IidSplit, UsersSplit


def make_split(**changes: object) -> UsersSplit:
    return UsersSplit.model_validate({"rule": "users", "train_share": 0.8} | changes)


@st.composite
def tweets(draw: st.DrawFn) -> tuple[Labels, Labels]:
    """Labels and users; every user has at least two samples, in any order."""
    sizes = draw(st.lists(st.integers(2, 30), min_size=3, max_size=20))
    users = np.random.default_rng(draw(st.integers(0, 99))).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return np.arange(len(users)) % 2, users


@settings(deadline=None)
@given(tweets(), st.sampled_from([0.1, 0.5, 1.0]), st.integers(1, 10), st.integers(0, 99))
def test_each_client_is_one_user_with_all_its_samples(
    data: tuple[Labels, Labels], share: float, least: int, seed: int
) -> None:
    labels, users = data
    split = make_split(share_of_samples=share, min_samples=least)
    sizes = np.bincount(users)
    try:
        clients = deal(labels, split, seed, users=users)
    except ConfigError:
        assert share < 1.0 or sizes.max() < least
        return
    owners = [set(users[own].tolist()) for own in held(clients)]
    assert all(len(owner) == 1 for owner in owners)
    chosen = [owner.pop() for owner in owners]
    assert chosen == sorted(set(chosen)), "clients stand in the order of the users"
    for user, own, train in zip(chosen, held(clients), clients.train, strict=True):
        assert sorted(own) == np.flatnonzero(users == user).tolist()
        assert len(own) >= least
        assert len(train) == min(max(1, int(0.8 * len(own) + 1e-9)), len(own) - 1)
    if share == 1.0:
        assert len(chosen) == (sizes >= least).sum()
    assert_same(clients, deal(labels, split, seed, users=users))


def test_users_are_taken_until_they_hold_the_share_asked_for() -> None:
    users = np.repeat(np.arange(1000), 10)
    clients = deal(users % 2, make_split(share_of_samples=0.3), 0, users=users)
    assert len(clients.train) == 300
    others = deal(users % 2, make_split(share_of_samples=0.3), 1, users=users)
    assert held(clients) != held(others)


@settings(deadline=None)
@given(tweets(), st.integers(1, 3), st.integers(0, 99))
def test_grouped_users_stay_together_in_clients_of_about_equal_size(
    data: tuple[Labels, Labels], clients: int, seed: int
) -> None:
    labels, users = data
    split = make_split(clients=clients)
    found = deal(labels, split, seed, users=users)
    owners = [set(users[own].tolist()) for own in held(found)]
    assert len(owners) == clients
    assert sum(map(len, owners)) == len(set.union(*owners)) == users.max() + 1
    sizes = [len(own) for own in held(found)]
    # Dealt largest first to the smallest client: two clients differ by one user at most.
    assert max(sizes) - min(sizes) <= np.bincount(users).max()


def test_without_a_share_each_client_tests_on_its_own_of_the_test_part() -> None:
    users, labels = np.tile(np.arange(5), 20), np.arange(100) // 50
    clients = deal(labels, make_split(train_share=None), 0, test_per_class=[10, 15], users=users)
    for client, (train, test) in enumerate(zip(clients.train, clients.test, strict=True)):
        assert set(users[train]) == set(users[test]) == {client}
        assert all(i in range(40, 50) or i in range(85, 100) for i in test)
    assert sorted(i for own in held(clients) for i in own) == list(range(100))
    with pytest.raises(ConfigError, match="the dataset has no test part of its own"):
        deal(labels, make_split(train_share=None), 0, users=users)


def test_what_does_not_fit_is_refused() -> None:
    users = np.repeat(np.arange(4), [2, 3, 4, 5])
    labels = np.arange(14) % 2
    with pytest.raises(ConfigError, match="needs a dataset that says whose each sample is"):
        deal(labels, make_split(), 0)
    with pytest.raises(ConfigError, match=r"only 0 have at least 30 samples \(min_samples\); the largest user has 5"):
        deal(labels, make_split(min_samples=30), 0, users=users)
    with pytest.raises(ConfigError, match="9 clients need as many users, but only 4 have at least 1"):
        deal(labels, make_split(clients=9), 0, users=users)
    with pytest.raises(ConfigError, match=r"client 0 would have no training sample \(14 of 14 clients\)"):
        deal(labels, make_split(), 0, users=np.arange(14))


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(24, 80), st.integers(0, 99), st.sampled_from([0.1, 0.5, 0.9]))
def test_equal_random_shares_cover_everything_once(clients: int, samples: int, seed: int, share: float) -> None:
    labels = np.arange(samples) % 3
    split = IidSplit(rule="iid", clients=clients, train_share=share)
    found = deal(labels, split, seed)
    assert sorted(i for own in held(found) for i in own) == list(range(samples))
    sizes = [len(own) for own in held(found)]
    assert max(sizes) - min(sizes) <= 1
    assert_same(found, deal(labels, split, seed))


def test_fewer_than_two_samples_a_client_are_refused() -> None:
    with pytest.raises(ConfigError, match="12 clients need at least 24 samples, but there are only 23"):
        deal(np.arange(23) % 3, IidSplit(rule="iid", clients=12, train_share=0.5), 0)
