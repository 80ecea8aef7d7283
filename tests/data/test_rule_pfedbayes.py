"""The pFedBayes rule against its definition, on any labels and any feasible numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dealing import deal, shuffled_labels
from fedbayes.data.partition import check_disjoint, check_range, samples_of
from fedbayes.data.rules import pfedbayes
from fedbayes.data.rules.types import ClientIndices
from fedbayes.reading import ConfigError
from fedbayes.split_rules import ClassFacts, PFedBayesSplit

Labels = NDArray[np.int64]


def make_split(**changes: object) -> PFedBayesSplit:
    numbers = {"clients": 10, "labels_per_client": 5, "train_per_class": 3, "test_per_class": 4, "stratified": False}
    return PFedBayesSplit.model_validate({"rule": "pfedbayes"} | numbers | changes)


def facts(per_class: list[int]) -> ClassFacts:
    return ClassFacts.model_validate({"per_class": per_class})


@st.composite
def feasible(draw: st.DrawFn) -> tuple[Labels, PFedBayesSplit, int]:
    """Labels in any order with just enough of each class, or a little more, and a split of them."""
    classes = draw(st.integers(1, 6))
    split = make_split(
        clients=draw(st.integers(1, 7)),
        labels_per_client=draw(st.integers(1, classes)),
        train_per_class=draw(st.integers(1, 6)),
        test_per_class=draw(st.integers(1, 6)),
        stratified=draw(st.booleans()),
    )
    block = split.train_per_class + split.test_per_class
    held = [label for client in range(split.clients) for label in split.client_labels(client, classes)]
    # A class nobody holds still exists in the data.
    counts = [max(1, held.count(label) * block + draw(st.integers(0, 3))) for label in range(classes)]
    return shuffled_labels(counts, draw(st.integers(0, 99))), split, draw(st.integers(0, 2**32))


@settings(deadline=None)
@given(feasible())
def test_every_client_has_its_labels_its_counts_and_nobody_elses_samples(
    case: tuple[Labels, PFedBayesSplit, int],
) -> None:
    labels, split, seed = case
    clients = deal(labels, split, seed)
    classes, k = int(labels.max()) + 1, split.labels_per_client
    used: list[int] = []
    for u in range(split.clients):
        train, test = clients.train[u].tolist(), clients.test[u].tolist()
        used += train + test
        assert len(train) == k * split.train_per_class
        assert len(test) == k * split.test_per_class
        assert len(clients.val[u]) == 0
        own = [(k * u + j) % classes for j in range(k)]
        assert {int(labels[i]) for i in train + test} == set(own)
        if split.stratified:
            for label in own:
                assert sum(labels[i] == label for i in train) == split.train_per_class
                assert sum(labels[i] == label for i in test) == split.test_per_class
    assert len(used) == len(set(used)) == split.clients * k * (split.train_per_class + split.test_per_class)


@settings(deadline=None)
@given(feasible())
def test_blocks_are_dealt_contiguously_in_the_order_of_the_dataset(case: tuple[Labels, PFedBayesSplit, int]) -> None:
    labels, split, seed = case
    clients = deal(labels, split, seed)
    for label in range(int(labels.max()) + 1):
        pool = [i for i, found in enumerate(labels) if found == label]
        block = split.train_per_class + split.test_per_class
        for train, test in zip(clients.train, clients.test, strict=True):
            own = sorted(i for i in [*train.tolist(), *test.tolist()] if labels[i] == label)
            if own:
                assert own == pool[:block]
                pool = pool[block:]


@settings(deadline=None)
@given(feasible())
def test_the_same_seed_gives_the_same_indices(case: tuple[Labels, PFedBayesSplit, int]) -> None:
    for parts, again in zip(deal(*case), deal(*case), strict=True):
        for indices, same in zip(parts, again, strict=True):
            assert indices.dtype == np.int64
            np.testing.assert_array_equal(indices, same)


@pytest.mark.parametrize("stratified", [False, True])
def test_other_seeds_give_other_cuts_of_the_same_blocks(stratified: bool) -> None:
    labels, split = (
        shuffled_labels([200] * 10),
        make_split(train_per_class=10, test_per_class=20, stratified=stratified),
    )
    made = [deal(labels, split, seed) for seed in range(5)]
    for u in range(split.clients):
        assert len({tuple(sorted(clients.train[u].tolist())) for clients in made}) == 5
        assert len({tuple(sorted([*clients.train[u], *clients.test[u]])) for clients in made}) == 1


@pytest.mark.parametrize("stratified", [False, True])
def test_a_client_does_not_depend_on_those_after_it(stratified: bool) -> None:
    labels = shuffled_labels([100] * 10)
    few = deal(labels, make_split(clients=3, stratified=stratified), 7)
    many = deal(labels, make_split(clients=9, stratified=stratified), 7)
    for u in range(3):
        np.testing.assert_array_equal(few.train[u], many.train[u])
        np.testing.assert_array_equal(few.test[u], many.test[u])


def test_clients_of_equal_labels_are_not_shuffled_alike() -> None:
    labels = np.repeat(np.arange(10), 350)
    clients = deal(labels, make_split(train_per_class=30, test_per_class=40), 0)
    # Clients 0 and 2 hold the same labels, one block of 70 apart.
    assert not np.array_equal(clients.train[0] + 70, clients.train[2])


@pytest.mark.parametrize("stratified", [False, True])
def test_a_batch_of_the_stored_order_mixes_classes(stratified: bool) -> None:
    labels = np.repeat(np.arange(10), 5000)
    clients = deal(labels, make_split(train_per_class=50, test_per_class=950, stratified=stratified), 0)
    for train in clients.train:
        assert len(set(labels[train[:20]].tolist())) >= 3, "class after class there would be one"


def test_without_stratification_counts_of_a_class_hold_on_average_only() -> None:
    labels = np.repeat(np.arange(10), 5000)
    split = make_split(train_per_class=50, test_per_class=950)
    trained = [labels[train] for seed in range(20) for train in deal(labels, split, seed).train]
    counts = np.array([(found == label).sum() for found in trained for label in np.unique(found)])
    # Hypergeometric: 250 of 5,000 samples, 1,000 of each class; variance 250 * 0.2 * 0.8 * (4750 / 4999) = 38.0.
    assert counts.mean() == pytest.approx(50)
    assert counts.var() == pytest.approx(38.0, rel=0.15)


@settings(deadline=None)
@given(feasible(), st.data())
def test_one_sample_too_few_is_refused(case: tuple[Labels, PFedBayesSplit, int], data: st.DataObject) -> None:
    labels, split, _ = case
    classes = int(labels.max()) + 1
    block = split.train_per_class + split.test_per_class
    held = [label for u in range(split.clients) for label in split.client_labels(u, classes)]
    label = data.draw(st.sampled_from(sorted(set(held))))
    enough = [max(1, held.count(c) * block) for c in range(classes)]
    assert split.objection(facts(enough)) is None
    short = [count - (c == label) for c, count in enumerate(enough)]
    objection = split.objection(facts(short))
    assert objection is not None
    assert f"class {label} must give {held.count(label)} clients {block} samples each" in objection
    assert f"has only {short[label]}" in objection


def test_more_labels_than_classes_are_refused() -> None:
    assert make_split(labels_per_client=5).objection(facts([100, 100, 100])) == (
        "labels_per_client is 5, but the dataset has only 3 classes"
    )


def test_partition_itself_refuses_what_does_not_fit() -> None:
    with pytest.raises(ConfigError, match="cannot be made: class 0 must give 5 clients 7 samples each"):
        deal(np.repeat(np.arange(10), 34), make_split(), 0)
    with pytest.raises(ConfigError, match="found -1; allowed: 0, 1, 2"):
        deal(np.repeat(np.arange(10), 35), make_split(), -1)


def indices(*parts: list[int]) -> tuple[NDArray[np.int64], ...]:
    return tuple(np.array(part, np.int64) for part in parts)


@pytest.mark.parametrize(
    ("clients", "complaint"),
    [
        (ClientIndices(indices([0, 1], [1]), indices([], []), indices([2], [3])), "sample 1 is used 2 times"),
        (ClientIndices(indices([0], [1]), indices([], []), indices([0], [3])), "sample 0 is used 2 times"),
        (ClientIndices(indices([0], [1]), indices([], []), indices([2], [4])), "beyond the 4 samples"),
        (ClientIndices(indices([0], [-1]), indices([], []), indices([2], [3])), "beyond the 4 samples"),
    ],
)
def test_overlap_and_strangers_are_found(clients: ClientIndices, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_range(clients, 4)
        check_disjoint(clients)


@pytest.mark.parametrize(
    ("clients", "stratified", "complaint"),
    [
        # labels 0 0 0 1 1 1, one client, both labels, one training and one test sample of each
        (ClientIndices(indices([0, 3]), indices([]), indices([1, 2])), False, r"client 0 has \[3, 1\] samples"),
        (ClientIndices(indices([0]), indices([]), indices([1, 3, 4])), False, "client 0 has 1 training samples"),
        (ClientIndices(indices([0, 1]), indices([]), indices([3, 4])), True, r"\[2, 0\] training samples"),
    ],
)
def test_wrong_counts_are_found(clients: ClientIndices, stratified: bool, complaint: str) -> None:
    split = make_split(clients=1, labels_per_client=2, train_per_class=1, test_per_class=1, stratified=stratified)
    with pytest.raises(ValueError, match=complaint):
        pfedbayes.check(samples_of(np.array([0, 0, 0, 1, 1, 1])), split, clients)
