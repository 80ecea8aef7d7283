"""LR-BPFL's k of n labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealing import Labels, assert_same, deal, held, shuffled_labels
from fedbayes.data.rules.labels import holders_of
from fedbayes.reading import ConfigError
from fedbayes.split_rules import ClassFacts, LabelsSplit


def make_split(**changes: object) -> LabelsSplit:
    numbers = {"clients": 10, "labels_per_client": 2, "holders": "even", "shares": "equal", "train_share": 0.1}
    return LabelsSplit.model_validate({"rule": "labels"} | numbers | changes)


@st.composite
def feasible(draw: st.DrawFn) -> tuple[Labels, LabelsSplit, int]:
    """Any numbers of clients and labels, with enough samples of each class for its holders."""
    classes = draw(st.integers(1, 8))
    k = draw(st.integers(1, classes))
    split = make_split(
        clients=draw(st.integers(1, 12)),
        labels_per_client=k,
        holders=draw(st.sampled_from(["even", "ceil"])),
        shares=draw(st.sampled_from(["equal", "random"])),
        train_share=draw(st.sampled_from([0.1, 0.4, 0.7])),
    )
    least = split.holders_of_a_class(classes) * 20
    counts = [least + draw(st.integers(0, 30)) for _ in range(classes)]
    return shuffled_labels(counts, draw(st.integers(0, 99))), split, draw(st.integers(0, 2**32))


@settings(deadline=None, max_examples=150)
@given(feasible())
def test_label_sets_and_counts_are_exact_and_nothing_is_dealt_twice(case: tuple[Labels, LabelsSplit, int]) -> None:
    labels, split, seed = case
    clients = deal(labels, split, seed)
    classes, k = int(labels.max()) + 1, split.labels_per_client
    owned = [{int(labels[i]) for i in own} for own in held(clients)]
    used = [i for own in held(clients) for i in own]
    assert len(used) == len(set(used))
    for train, own in zip(clients.train, held(clients), strict=True):
        assert len(train) == max(1, int(split.train_share * len(own) + 1e-9))
    holders = [sum(label in own for own in owned) for label in range(classes)]
    if split.holders == "even":
        assert all(len(own) == k for own in owned)
        assert max(holders) - min(holders) <= 1
        assert sum(held_by > 0 for held_by in holders) == min(classes, split.clients * k)
        assert sorted(used) == [i for i, label in enumerate(labels) if holders[label]], "classes are dealt whole"
    else:
        assert all(1 <= len(own) <= k for own in owned)
        assert max(holders) <= split.holders_of_a_class(classes)
        assert sorted(used) == [i for i, label in enumerate(labels) if holders[label]]


@settings(deadline=None, max_examples=30)
@given(feasible())
def test_the_same_seed_gives_the_same_split(case: tuple[Labels, LabelsSplit, int]) -> None:
    assert_same(deal(*case), deal(*case))


@pytest.mark.parametrize(("k", "classes", "holders"), [(2, 10, {10}), (5, 10, {25}), (5, 100, {2, 3})])
def test_lr_bpfl_has_as_many_holders_of_a_class_as_slots_allow(k: int, classes: int, holders: set[int]) -> None:
    split = make_split(clients=50, labels_per_client=k)
    for seed in range(3):
        found = holders_of(split, classes, seed)
        assert {len(own) for own in found} == holders
        assert sum(map(len, found)) == 50 * k


def test_the_rounded_up_rule_runs_out_of_slots_before_the_last_class() -> None:
    """PFLlib asks for 3 clients for each of 100 classes, 300 slots, where 50 clients x 5 labels have 250."""
    found = holders_of(make_split(clients=50, labels_per_client=5, holders="ceil"), 100, 0)
    sizes = [len(own) for own in found]
    assert sizes[:80] == [3] * 80
    assert sizes[-1] == 0
    assert sum(sizes) <= 250


def test_pairs_of_labels_are_not_tied_together() -> None:
    """Every pair of ten classes turns up somewhere: no class is bound to a part of the others."""
    labels = np.repeat(np.arange(10), 200)
    pairs = set()
    for seed in range(30):
        pairs |= {tuple(sorted(set(labels[own].tolist()))) for own in held(deal(labels, make_split(), seed))}
    assert len(pairs) == 45


def test_cifar_shares_are_those_of_the_paper() -> None:
    """60,000 images and 50 clients: 1,200 each, 120 or 480 for training."""
    labels = np.repeat(np.arange(10), 6000)
    for share, train in ((0.1, 120), (0.4, 480)):
        clients = deal(labels, make_split(clients=50, labels_per_client=5, train_share=share), 0)
        assert {len(own) for own in clients.train} == {train}
        assert {len(own) for own in clients.test} == {1200 - train}


@pytest.mark.parametrize(
    ("classes", "k", "clients", "seed"), [(8, 7, 4, 2), (8, 8, 5, 21), (5, 5, 8, 7), (10, 9, 6, 0)]
)
def test_clients_that_hold_nearly_all_labels_are_dealt_exactly_too(
    classes: int, k: int, clients: int, seed: int
) -> None:
    split = make_split(clients=clients, labels_per_client=k)
    for own_seed in range(seed, seed + 30):
        found = deal(np.repeat(np.arange(classes), 40), split, own_seed)
        labels = np.repeat(np.arange(classes), 40)
        assert all(len(set(labels[own].tolist())) == k for own in held(found))


@pytest.mark.parametrize("holders", ["even", "ceil"])
def test_who_takes_the_rest_of_a_class_is_random(holders: str) -> None:
    labels = np.repeat(np.arange(10), 1000)
    split = make_split(clients=20, labels_per_client=5, holders=holders, shares="random")
    largest = [int(np.argmax([len(own) for own in held(deal(labels, split, seed))])) for seed in range(30)]
    assert len(set(largest)) > 8 and min(largest) < 6


def test_random_shares_are_between_a_tenth_and_the_equal_share_but_for_the_last_holder() -> None:
    labels = np.repeat(np.arange(10), 1000)
    split = make_split(shares="random")
    clients = deal(labels, split, 3)
    for label, holders in enumerate(holders_of(split, 10, 3)):
        counts = [int((labels[held(clients)[client]] == label).sum()) for client in holders]
        assert all(50 <= count <= 500 for count in counts[:-1])
        assert sum(counts) == 1000


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="labels_per_client is 2, but the dataset has only 1 classes"):
        deal(np.zeros(50, np.int64), make_split(), 0)
    with pytest.raises(ConfigError, match=r"class 1 is shared by 10 clients and needs 20 samples; it has 19"):
        deal(np.repeat([0, 1], [20, 19]), make_split(), 0)
    with pytest.raises(ConfigError, match="the dataset has no test part of its own"):
        deal(np.repeat(np.arange(10), 50), make_split(pool="train"), 0)


def test_a_part_of_the_dataset_can_be_dealt_alone() -> None:
    labels = np.tile(np.arange(10), 100)
    for pool, expected in (("train", range(800)), ("test", range(800, 1000))):
        clients = deal(labels, make_split(pool=pool), 0, test_per_class=[20] * 10)
        assert sorted(i for own in held(clients) for i in own) == list(expected)


def test_an_unknown_size_of_the_classes_is_no_objection() -> None:
    assert make_split().objection(ClassFacts(classes=10)) is None
