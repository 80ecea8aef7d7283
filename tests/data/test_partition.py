"""What any split can have (newcomers, a validation share, the server's own), names, parts, what planning knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dealing import deal, held
from fedbayes.data.partition import RULES, partition, samples_of, server_samples
from fedbayes.reading import ConfigError
from fedbayes.split_rules import RECORDS, ClassFacts, JoinedSplit, split_name, split_of

DIRICHLET = {"rule": "dirichlet", "clients": 4, "alpha": 0.5, "law": "class", "min_samples": 6, "train_share": 0.5}
# One of every rule, on the labels and users below.
SPLITS: dict[str, dict[str, Any]] = {
    "pfedbayes": {
        "clients": 4, "labels_per_client": 2, "train_per_class": 6, "test_per_class": 4, "stratified": False,
    },
    "labels": {"clients": 4, "labels_per_client": 2, "holders": "even", "shares": "equal", "train_share": 0.4},
    "dirichlet": DIRICHLET,
    "feduab": {"clients": 4, "train_per_client": 10, "test_per_client": 5, "law": "iid"},
    "power-law": {
        "clients": 4, "labels_per_client": 2, "sizes": "shares", "mu": 0.0, "sigma": 1.0, "least": 5,
        "train_share": 0.9,
    },
    "users": {"clients": 4, "train_share": 0.8},
    "iid": {"clients": 4, "train_share": 0.5},
    "joined": {
        "trained": DIRICHLET | {"clients": 3, "pool": "train"}, "new": DIRICHLET | {"clients": 1, "pool": "test"},
    },
}  # fmt: skip
LABELS = np.tile(np.arange(4), 50)
USERS = np.arange(200) // 8


def made(rule: str, **changes: Any) -> Any:
    split = split_of(SPLITS[rule] | {"rule": rule} | changes)
    return split, deal(LABELS, split, 3, test_per_class=[10] * 4, users=USERS)


def test_every_record_has_a_rule_and_a_split_to_be_tested_with() -> None:
    # `repeats` takes the users of a whole dataset as they are; tests/data/test_rule_repeats.py has it.
    assert set(RECORDS) == {*SPLITS, "repeats"} == {*RULES, "joined"}


@pytest.mark.parametrize("rule", [rule for rule in SPLITS if rule != "joined"])
def test_what_the_server_holds_no_client_gets(rule: str) -> None:
    split = split_of(SPLITS[rule] | {"rule": rule, "server_share": 0.1})
    samples = samples_of(LABELS, [10] * 4, USERS)
    server, clients = server_samples(samples, split, 3), partition(samples, split, 3)
    assert len(server) == 20 and sorted(set(server.tolist())) == server.tolist()
    assert not set(server.tolist()) & {int(row) for part in clients for own in part for row in own}
    # The clients' samples are what the rule makes of a dataset without the server's.
    rest = np.setdiff1d(np.arange(len(LABELS)), server)
    without = partition(samples.among(rest), split_of(SPLITS[rule] | {"rule": rule}), 3)
    assert [own.tolist() for own in clients.train] == [rest[own].tolist() for own in without.train]
    assert server.tolist() != server_samples(samples, split, 4).tolist()


@pytest.mark.parametrize("rule", SPLITS)
def test_a_validation_share_is_taken_from_training_samples_and_nothing_else_changes(rule: str) -> None:
    _, plain = made(rule)
    _, split = made(rule, validation=0.25)
    for train, val, before in zip(split.train, split.val, plain.train, strict=True):
        assert len(val) == len(before) // 4 > 0
        aside = set(val.tolist())
        assert [i for i in before.tolist() if i not in aside] == train.tolist(), "the others keep their order"
        assert sorted([*train, *val]) == sorted(before)
    assert [own.tolist() for own in split.test] == [own.tolist() for own in plain.test]


@pytest.mark.parametrize("rule", [rule for rule in SPLITS if rule != "joined"])
def test_newcomers_change_no_sample_but_are_named(rule: str) -> None:
    plain, without = made(rule)
    split, clients = made(rule, newcomers=(0, 3))
    assert held(clients) == held(without)
    assert split.held_out() == (0, 3)
    assert plain.held_out() == ()


def test_strangers_among_the_newcomers_are_refused() -> None:
    with pytest.raises(ConfigError, match="newcomers has client 4, but there are only 4 clients, 0 first"):
        made("iid", newcomers=(4,))
    with pytest.raises(ConfigError, match="newcomers leaves no client for training"):
        made("iid", newcomers=(0, 1, 2, 3))
    with pytest.raises(ConfigError, match="newcomers are all clients of 'new'"):
        made("joined", newcomers=(0,))
    with pytest.raises(ConfigError, match="validation belongs to the joined split"):
        made("joined", new=DIRICHLET | {"clients": 1, "pool": "test", "validation": 0.1})


def test_newcomers_are_named_once_and_in_order() -> None:
    for wrong in ((3, 1), (2, 2)):
        with pytest.raises(ValidationError, match="expected clients in rising order, each once"):
            made("iid", newcomers=wrong)


def test_newcomers_among_natural_users_are_checked_when_their_number_is_known() -> None:
    with pytest.raises(ConfigError, match="newcomers has client 25, but there are only 25 clients"):
        made("users", clients=None, newcomers=(25,))


def test_a_name_too_long_for_a_file_system_ends_in_a_digest() -> None:
    split = split_of(SPLITS["iid"] | {"rule": "iid", "clients": 1000, "newcomers": tuple(range(100))})
    other = split_of(SPLITS["iid"] | {"rule": "iid", "clients": 1000, "newcomers": tuple(range(99))})
    assert len(split_name(split)) <= 200 and split_name(split) != split_name(other)


def test_a_validation_share_that_leaves_a_client_empty_handed_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"client 0 would have no validation sample \(4 of 4 clients\)"):
        made("users", validation=0.01)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(sorted(SPLITS)), st.randoms())
def test_a_split_does_not_depend_on_the_order_in_which_splits_are_made(rule: str, random: Any) -> None:
    _, first = made(rule)
    for other in random.sample(sorted(SPLITS), 3):
        made(other)
    _, again = made(rule)
    assert held(first) == held(again)


@pytest.mark.parametrize("rule", SPLITS)
def test_names_are_folder_names_and_say_what_differs(rule: str) -> None:
    split, _ = made(rule)
    name = split_name(split)
    assert name.startswith(f"{rule}-") and len(name) < 255 and not set(name) & set("/ :,()'\"")
    assert "newcomers" not in name and "validation" not in name
    other, _ = made(rule, validation=0.25)
    assert split_name(other) != name
    assert split_of(other.model_dump(mode="json")) == other


def test_an_unused_option_is_not_part_of_what_names_a_run() -> None:
    split, _ = made("iid")
    assert split.model_dump(mode="json") == {"rule": "iid", "clients": 4, "train_share": 0.5, "pool": "all"}


def test_the_test_part_is_the_last_samples_of_each_class() -> None:
    samples = samples_of(np.array([0, 1, 0, 1, 1, 0]), [1, 2])
    assert samples.is_test.tolist() == [False, False, False, True, True, True]
    assert samples.rows("train").tolist() == [0, 1, 2]
    assert [rows.tolist() for rows in samples.by_class("test")] == [[5], [3, 4]]


def test_facts_must_agree_with_themselves() -> None:
    assert ClassFacts.model_validate({"per_class": [3, 4]}).classes == 2
    assert ClassFacts.model_validate({"per_class": [3, 4], "test_per_class": [1, 1]}).counts("train") == (2, 3)
    for wrong, complaint in (
        ({"per_class": [3, 4], "classes": 3}, "per_class has 2 counts; expected one for each of the 3 classes"),
        ({"per_class": [3, 4], "test_per_class": [1]}, "test_per_class has 1 counts"),
        ({"per_class": [3, 4], "test_per_class": [1, 4]}, "leaves class 1 no training sample: 4 of 4"),
        ({}, "classes\n  Field required"),
    ):
        with pytest.raises(ValidationError, match=complaint):
            ClassFacts.model_validate(wrong)


def test_a_joined_split_counts_clients_of_both() -> None:
    split = split_of(SPLITS["joined"] | {"rule": "joined"})
    assert isinstance(split, JoinedSplit)
    assert (split.population, split.held_out()) == (4, (3,))
