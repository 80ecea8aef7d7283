"""The engine against a plain loop, and the laws it promises."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import toy
from fedbayes.federation import trees
from fedbayes.federation.contract import Feed, Visit
from fedbayes.federation.lifting import Lift
from fedbayes.federation.loop import Federation, State, advance, choose, start
from fedbayes.federation.resident import Resident
from plain_fedavg import fedavg
from toy import after


def same_bits(a: State, b: State) -> bool:
    return all(torch.equal(x, y) for x, y in zip(trees.leaves(a), trees.leaves(b), strict=True))


@pytest.mark.parametrize("lift", ["vmap", "loop"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("sizes", [toy.SIZES, (8, 8, 8), (3, 12)])
def test_three_rounds_equal_the_plain_loop(lift: Lift, momentum: float, sizes: tuple[int, ...]) -> None:
    federation = toy.federation(fields=toy.FEDAVG | {"momentum": momentum}, sizes=sizes, lift=lift)
    expected = fedavg(federation, start(federation).server.weights, 3, batch=4, steps=3, lr=0.1, momentum=momentum)
    found = after(federation, 3).server.weights
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-9)


@pytest.mark.parametrize("lift", ["vmap", "loop"])
@pytest.mark.parametrize("feed", [Feed(4, 3), Feed(4, 2, "epochs", "shuffled"), Feed(3, 4, order="iid")])
def test_chunks_change_no_bit(lift: str, feed: Feed) -> None:
    whole, parts = (toy.federation(feed=feed, dtype=torch.float32, lift=lift, chunk=c) for c in (None, 2))  # type: ignore[arg-type]
    assert same_bits(after(whole, 3), after(parts, 3))


def three_phases(federation: Federation) -> Federation:
    """FedAvg whose visit trains, then takes two steps on test data, then trains again."""
    begin, (phase,), end = federation.method.train
    phases = (phase, phase._replace(feed=lambda feed: feed._replace(amount=2, split="test")), phase)
    return replace(federation, method=federation.method._replace(train=Visit(begin, phases, end)))


@pytest.mark.parametrize("lift", ["vmap", "loop"])
@pytest.mark.parametrize("sizes", [(8,) * 5, (12,) * 4, (3, 3, 12, 12), (4, 8, 8, 4), (2,) * 4])
@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize("clients_per_round", [None, 2])
def test_views_and_gathers_give_the_same_bits(
    lift: Lift,
    sizes: tuple[int, ...],
    chunk: int | None,
    clients_per_round: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    federation = three_phases(
        toy.federation(sizes=sizes, lift=lift, chunk=chunk, clients_per_round=clients_per_round, dtype=torch.float32)
    )
    looked: list[int] = []
    window = Resident.window
    monkeypatch.setattr(Resident, "window", lambda *args: looked.append(1) or window(*args))
    by_views = after(federation, 4)
    assert looked or len(set(sizes)) > 1, "no step took a view"
    monkeypatch.setattr("fedbayes.federation.feed.aligned", lambda *args: False)
    before = len(looked)
    assert same_bits(by_views, after(federation, 4)) and len(looked) == before


@pytest.mark.parametrize(
    "feed", [Feed(4, 3), Feed(4, 2, "epochs", "shuffled"), Feed(3, 4, order="iid"), Feed(1, 2, order="full")]
)
def test_vmap_and_loop_agree(feed: Feed) -> None:
    one, other = (after(toy.federation(feed=feed, lift=lift), 3) for lift in ("vmap", "loop"))  # type: ignore[arg-type]
    for a, b in zip(trees.leaves(one), trees.leaves(other), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


def test_one_client_is_plain_sgd() -> None:
    federation = toy.federation(sizes=(9,))
    expected = fedavg(federation, start(federation).server.weights, 2, batch=4, steps=3, lr=0.1, momentum=0.0)
    torch.testing.assert_close(after(federation, 2).server.weights, expected, rtol=0, atol=1e-12)


def test_interrupted_equals_uninterrupted(federation: Federation) -> None:
    halfway = after(federation, 2)
    named = {name: tensor.clone() for name, tensor in trees.named(halfway, "state").items()}
    resumed = after(federation, 5, trees.rebuild(start(federation), named, "state"))
    assert same_bits(resumed, after(federation, 5))


def test_a_round_leaves_its_input_alone(federation: Federation) -> None:
    state = start(federation)
    before = [leaf.clone() for leaf in trees.leaves(state)]
    advance(federation, state)
    assert all(torch.equal(a, b) for a, b in zip(before, trees.leaves(state), strict=True))


def test_participation_is_keyed_and_without_replacement() -> None:
    federation = toy.federation(sizes=(3,) * 10, clients_per_round=4)
    picks = [choose(federation, round_).tolist() for round_ in range(50)]
    assert all(len(set(pick)) == 4 and pick == sorted(pick) for pick in picks)
    assert {client for pick in picks for client in pick} == set(range(10))
    assert picks[7] == choose(federation, 7).tolist()


def test_clients_that_do_not_take_part_take_no_batches() -> None:
    federation = toy.federation(sizes=(5, 5, 5, 5), clients_per_round=2)
    state, _ = advance(federation, start(federation))
    chosen = choose(federation, 0).tolist()
    assert [int(n) for n in state.seen] == [3 if client in chosen else 0 for client in range(4)]


def test_all_train_but_only_the_chosen_upload() -> None:
    selected, everyone = (
        toy.federation(sizes=(5, 6, 7), clients_per_round=2, trains=who) for who in ("selected", "all")
    )
    one, other = advance(selected, start(selected))[0], advance(everyone, start(everyone))[0]
    torch.testing.assert_close(one.server.weights, other.server.weights, rtol=0, atol=1e-12)
    assert int(other.seen.sum()) == 9 and int(one.seen.sum()) == 6


def test_communication_is_counted_from_what_is_sent(federation: Federation) -> None:
    _, report = advance(federation, start(federation))
    weights = 2 * 5 + 5 + 5 * 3 + 3
    assert (report.floats_down, report.floats_up) == (weights, weights)


def test_clients_of_unequal_epochs_stop_by_themselves() -> None:
    federation = toy.federation(sizes=(2, 9), feed=Feed(3, 1, "epochs", "cyclic"))
    state, _ = advance(federation, start(federation))
    assert state.seen.tolist() == [1, 3]
