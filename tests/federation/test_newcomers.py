"""Clients that never take part in training: nothing of theirs reaches the server, and they are scored apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import toy
from fedbayes.evaluation.evaluate import conditions, predict_all, predict_pm, scored, scores
from fedbayes.federation.loop import choose, rounds, start


@pytest.mark.parametrize("trains", ["selected", "all"])
def test_a_newcomer_s_data_change_nothing(trains: str) -> None:
    plain = toy.federation(trains=trains, clients_per_round=2)
    without = replace(plain, newcomers=(1,))
    # The same federation with other labels at the newcomer.
    labels = plain.data.labels.clone()
    rows = plain.data.train.rows[1, : plain.data.train.sizes[1]]
    labels[rows] = (labels[rows] + 1) % toy.CLASSES
    other = replace(without, data=replace(plain.data, labels=labels))
    *_, (one, _) = rounds(without, start(without), 3)
    *_, (two, _) = rounds(other, start(other), 3)
    for name, weight in one.server.weights.items():
        assert torch.equal(weight, two.server.weights[name])


def test_newcomers_are_never_chosen_and_the_others_all_are() -> None:
    federation = replace(toy.federation(sizes=(4,) * 9, clients_per_round=3), newcomers=(0, 7))
    chosen = torch.stack([choose(federation, round_) for round_ in range(60)])
    assert set(chosen.flatten().tolist()) == {1, 2, 3, 4, 5, 6, 8}
    assert all(len(set(row.tolist())) == 3 for row in chosen)


def test_a_newcomer_leaves_the_order_of_the_others_as_it_was() -> None:
    federation = toy.federation(sizes=(4,) * 9, clients_per_round=3)
    # As long as the newcomer is not among the chosen, the choice is the same with it and without.
    same = [torch.equal(choose(federation, r), choose(replace(federation, newcomers=(8,)), r)) for r in range(40)]
    chosen = [8 in choose(federation, r).tolist() for r in range(40)]
    assert same == [not newcomer for newcomer in chosen] and any(same) and not all(same)


def test_newcomers_are_scored_apart() -> None:
    federation = replace(toy.federation(), newcomers=(1,))
    assert conditions(federation) == {"clean": (0, 2), "new": (1,)}
    assert conditions(toy.federation()) == {"clean": (0, 1, 2)}
    everybody = scores(predict_pm(toy.federation(), start(toy.federation())), (0, 1, 2))["accuracy"].clients
    found = scored(federation, "pm", predict_all(federation, start(federation))["pm"])
    clean, new = (found[condition].metrics["accuracy"] for condition in ("clean", "new"))
    assert clean.clients == [everybody[0], everybody[2]]
    assert new.clients == [everybody[1]] == [new.pooled]
    assert clean.pooled == pytest.approx(clean.scopes("accuracy")["mean"]), "test sets are of equal size"
    followed = scored(federation, "pm", predict_pm(federation, start(federation)))
    assert followed.keys() == {"clean"}, "what brings newcomers to their models waits for the end of training"
