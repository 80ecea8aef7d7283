"""Federations side by side: users as they are numbered, with all their samples, and nothing drawn."""

from __future__ import annotations

import numpy as np
import pytest

from dealing import assert_same, deal
from fedbayes.reading import ConfigError
from fedbayes.split_rules import ClassFacts, RepeatsSplit

# Users of 1 to 12 samples, in any order: three repeats of four clients.
USERS = np.random.default_rng(0).permutation(np.repeat(np.arange(12), np.arange(1, 13)))
LABELS = np.zeros_like(USERS)
FACTS = ClassFacts(per_class=(len(USERS),), classes=1)


def make_split(**changes: object) -> RepeatsSplit:
    return RepeatsSplit.model_validate({"rule": "repeats", "clients": 4, "repeats": 3} | changes)


def test_every_client_is_the_user_of_its_number_and_trains_on_all_it_has() -> None:
    clients = deal(LABELS, make_split(), 0, users=USERS)
    assert [rows.tolist() for rows in clients.train] == [np.flatnonzero(user == USERS).tolist() for user in range(12)]
    assert [len(part) for parts in (clients.val, clients.test) for part in parts] == [0] * 24


def test_fewer_repeats_are_the_first_ones_and_no_seed_changes_them() -> None:
    whole, two = deal(LABELS, make_split(), 0, users=USERS), deal(LABELS, make_split(repeats=2), 7, users=USERS)
    for own, same in zip(two.train, whole.train[:8], strict=True):
        np.testing.assert_array_equal(own, same)
    assert_same(whole, deal(LABELS, make_split(), 1, users=USERS))


def test_what_cannot_be_made_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="4 repeats of 4 clients need 16 users, but the dataset has only 12"):
        deal(LABELS, make_split(repeats=4), 0, users=USERS)
    with pytest.raises(ConfigError, match="needs a dataset that says whose each sample is"):
        deal(LABELS, make_split(), 0)
    for extra in ({"newcomers": [0]}, {"validation": 0.1}, {"server_share": 0.1}):
        assert "do not go with the rule 'repeats'" in (make_split(**extra).objection(FACTS) or "")
    assert "need 80 users, more than samples" in (make_split(repeats=20).objection(FACTS) or "")
