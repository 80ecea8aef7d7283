"""FedUAB's six scenarios: All / Small x IID / Dirichlet / Only2."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealing import Labels, assert_same, deal, shuffled_labels
from fedbayes.data.rules.feduab import class_shares, concentrations
from fedbayes.reading import ConfigError
from fedbayes.split_rules import FedUABSplit


def make_split(law: str, **changes: object) -> FedUABSplit:
    numbers = {"clients": 100, "train_per_client": 50, "test_per_client": 100}
    eta = {"concentration": "uniform"} if law == "dirichlet" else {}
    return FedUABSplit.model_validate({"rule": "feduab", "law": law} | numbers | eta | changes)


def parted_labels(train: list[int], test: list[int], seed: int = 0) -> Labels:
    return np.concatenate([shuffled_labels(train, seed), shuffled_labels(test, seed + 1)])


@st.composite
def any_case(draw: st.DrawFn) -> tuple[Labels, FedUABSplit, int, list[int]]:
    classes = draw(st.integers(2, 6))
    train, test = ([draw(st.integers(3, 30)) for _ in range(classes)] for _ in range(2))
    law = draw(st.sampled_from(["iid", "dirichlet", "only2"]))
    split = make_split(
        law,
        clients=draw(st.integers(1, 9)),
        train_per_client=draw(st.integers(1, 20)),
        test_per_client=draw(st.integers(1, 12)),
    )
    return parted_labels(train, test, draw(st.integers(0, 99))), split, draw(st.integers(0, 2**32)), test


@settings(deadline=None, max_examples=150)
@given(any_case())
def test_sizes_are_exact_parts_are_kept_apart_and_reuse_is_in_turn(
    case: tuple[Labels, FedUABSplit, int, list[int]],
) -> None:
    labels, split, seed, test = case
    clients = deal(labels, split, seed, test_per_class=test)
    boundary = len(labels) - sum(test)
    for part, size, own_part in (
        (clients.train, split.train_per_client, lambda i: i < boundary),
        (clients.test, split.test_per_client, lambda i: i >= boundary),
    ):
        assert [len(own) for own in part] == [size] * split.clients
        uses = Counter(int(i) for own in part for i in own)
        assert all(own_part(i) for i in uses)
        for label in range(int(labels.max()) + 1):
            pool = [i for i, found in enumerate(labels) if found == label and own_part(i)]
            counts = [uses[i] for i in pool]
            # No sample is dealt for the second time before every other one of its class was dealt once.
            assert max(counts) - min(counts) <= 1
            demand = sum(int((labels[own] == label).sum()) for own in part)
            assert sum(counts) == demand
        for own in part:
            wanted = np.bincount(labels[own], minlength=int(labels.max()) + 1)
            supply = np.bincount(labels[[i for i in range(len(labels)) if own_part(i)]], minlength=len(wanted))
            if (wanted <= supply).all():
                assert len(set(own.tolist())) == len(own), "no client has a sample twice while a class has others"
    assert_same(clients, deal(labels, split, seed, test_per_class=test))


@pytest.mark.parametrize("law", ["iid", "only2"])
@pytest.mark.parametrize("size", [500, 50])
def test_nothing_is_shared_where_classes_suffice(law: str, size: int) -> None:
    labels = parted_labels([5000] * 10, [1000] * 10)
    clients = deal(labels, make_split(law, train_per_client=size), 0, test_per_class=[1000] * 10)
    for part, each in ((clients.train, size), (clients.test, 100)):
        used = np.concatenate(part)
        assert len(set(used.tolist())) == len(used) == 100 * each


def test_iid_clients_have_all_classes_alike() -> None:
    labels = parted_labels([6000] * 10, [1000] * 10)
    clients = deal(labels, make_split("iid", train_per_client=600), 0, test_per_class=[1000] * 10)
    for train, test in zip(clients.train, clients.test, strict=True):
        assert np.bincount(labels[train]).tolist() == [60] * 10
        assert np.bincount(labels[test]).tolist() == [10] * 10


def test_only2_clients_have_two_classes_half_and_half_and_five_clients_cover_all_ten() -> None:
    labels = parted_labels([5000] * 10, [1000] * 10)
    clients = deal(labels, make_split("only2"), 0, test_per_class=[1000] * 10)
    own = [sorted(set(labels[train].tolist())) for train in clients.train]
    for client, (train, test) in enumerate(zip(clients.train, clients.test, strict=True)):
        assert sorted(np.bincount(labels[train], minlength=10).tolist())[-3:] == [0, 25, 25]
        assert sorted(np.bincount(labels[test], minlength=10).tolist())[-3:] == [0, 50, 50]
        assert sorted(set(labels[test].tolist())) == own[client]
    for block in range(0, 100, 5):
        assert sorted(label for pair in own[block : block + 5] for label in pair) == list(range(10))
    assert len({tuple(pair) for pair in own}) > 30, "pairs are shuffled anew for each block"


def test_an_odd_number_of_classes_never_gives_a_client_the_same_class_twice() -> None:
    shares = class_shares(make_split("only2"), 7, 0)
    assert ((shares == 0.5).sum(1) == 2).all()
    assert (shares.sum(0) * 2).max() - (shares.sum(0) * 2).min() <= 1


def test_local_test_sets_follow_the_law_of_the_training_set() -> None:
    labels = parted_labels([5000] * 10, [1000] * 10)
    split = make_split("dirichlet", train_per_client=500)
    clients = deal(labels, split, 3, test_per_class=[1000] * 10)
    for law, train, test in zip(class_shares(split, 10, 3), clients.train, clients.test, strict=True):
        for own, size in ((train, 500), (test, 100)):
            counts = np.bincount(labels[own], minlength=10)
            floored = np.floor(law * size + 1e-9)
            more = counts - floored
            assert (more >= 0).all() and (more > 0).sum() <= 1, "what is missing goes to one class"
            assert more.sum() == size - floored.sum()


def test_dirichlet_shares_have_the_moments_of_their_concentrations() -> None:
    split = make_split("dirichlet", concentration="grid")
    etas = concentrations(split, 0)
    np.testing.assert_allclose(etas, 0.5 * np.arange(1, 101) / 100)
    shares = np.stack([class_shares(split, 10, seed) for seed in range(300)])
    np.testing.assert_allclose(shares.mean((0, 2)), 0.1)
    # Var of a share under Dirichlet(eta 1_10): 0.1 * 0.9 / (10 eta + 1). Averaged over the clients: 0.0301.
    assert shares.var(0).mean() == pytest.approx((0.09 / (10 * etas + 1)).mean(), rel=0.05)


def test_the_text_draws_concentrations_up_to_a_half() -> None:
    etas = np.concatenate([concentrations(make_split("dirichlet"), seed) for seed in range(20)])
    assert 0 < etas.min() < 0.01 and 0.49 < etas.max() <= 0.5
    assert etas.mean() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("law", "changes"), [("dirichlet", {"concentration": None}), ("iid", {"concentration": "grid"})]
)
def test_a_concentration_belongs_to_the_dirichlet_law(law: str, changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="concentration must be given for the law 'dirichlet', and for no other"):
        deal(parted_labels([9] * 3, [9] * 3), make_split(law, **changes), 0, test_per_class=[9] * 3)


def test_a_dataset_without_a_test_part_is_refused() -> None:
    with pytest.raises(ConfigError, match="the dataset has no test part of its own"):
        deal(np.tile(np.arange(3), 20), make_split("iid"), 0)
