"""FedPer, FedRep, LG-FedAvg and local training: each against torch's own optimisers, one client at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

import plain_loop
import toy
from agreement import assert_clients, assert_same, preset
from fedbayes.federation import trees
from fedbayes.federation.contract import Feed
from fedbayes.federation.loop import Federation, start
from plain_loop import BODY, HEAD, Data, PartlyShared, Weights

ALL = BODY + HEAD
SGD = partial(torch.optim.SGD, lr=0.1)
ADAM = partial(torch.optim.Adam, lr=0.01)


def together(data: Data, client: int, own: PartlyShared) -> None:
    for _ in range(plain_loop.STEPS):
        own.step(data.next(client), ALL)


def all_then_head(data: Data, client: int, own: PartlyShared) -> None:
    for _ in range(plain_loop.STEPS):
        batch = data.next(client)
        own.step(batch, ALL)
        for _ in range(2):
            own.step(batch, HEAD)


def head_then_body(data: Data, client: int, own: PartlyShared) -> None:
    for epochs, moves in ((2, HEAD), (1, BODY)):
        for _ in range(epochs * len(data.tables[client])):
            own.step(data.next(client), moves)


def initial(federation: Federation) -> Weights:
    server = start(federation).server
    return {name: {**server.shared, **server.private}[name] for name in ALL}


Case = tuple[str, dict[str, Any], tuple[str, ...], Callable[..., None], Callable[..., Any], bool, bool]
CASES: list[Case] = [
    ("fedper", preset("fedper", "paper", private_start="common", lr=0.1), BODY, together, SGD, False, False),
    ("fedper", preset("fedper", "reference", lr=0.01), BODY, together, ADAM, True, False),
    ("lgfedavg", preset("lgfedavg", "paper", lr=0.1), HEAD, together, SGD, False, False),
    ("lgfedavg", preset("lgfedavg", "reference", lr=0.1), HEAD, together, partial(SGD, momentum=0.5), False, True),
    ("lgfedavg", preset("lgfedavg", "mended", lr=0.01), HEAD, together, ADAM, True, False),
    ("lgfedavg", preset("lgfedavg", "bpfed", lr=0.01), (), together, ADAM, True, False),
    (
        "fedrep",
        preset("fedrep", "paper", lr=0.1, head_epochs=2),
        BODY,
        head_then_body,
        partial(SGD, momentum=0.5),
        False,
        True,
    ),
    ("fedrep", preset("fedrep", "bpfed", lr=0.01, head_steps=2), BODY, all_then_head, ADAM, True, False),
    ("local", preset("local", "paper", lr=0.1), (), together, SGD, False, False),
    ("local", preset("local", "reference", lr=0.01), (), together, ADAM, True, False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[3].__name__}")
def test_three_rounds_against_torchs_optimisers(case: Case) -> None:
    method, fields, shared, visit, make, kept, uniform = case
    federation = toy.federation(method, fields)
    common, clients = plain_loop.partly_shared(
        federation, initial(federation), 3, shared, visit, make, kept=kept, uniform=uniform
    )
    state = toy.after(federation, 3)
    if shared:
        assert_same(state.server.shared, common)
    for number, weights in enumerate(clients):
        own = trees.take(state.clients.own, number)
        assert_same(own, {name: weights[name] for name in own})


def test_weight_decay_is_fedreps_not_on_biases() -> None:
    fields = preset("fedper", "paper", private_start="common", lr=0.1, weight_decay=0.3)
    federation = toy.federation("fedper", fields)

    def make(weights: list[torch.Tensor]) -> torch.optim.Optimizer:
        groups = [
            {"params": [w for w in weights if w.dim() == 2], "weight_decay": 0.3},
            {"params": [w for w in weights if w.dim() == 1], "weight_decay": 0.0},
        ]
        return torch.optim.SGD(groups, lr=0.1)

    common, _ = plain_loop.partly_shared(federation, initial(federation), 3, BODY, together, make)
    assert_same(toy.after(federation, 3).server.shared, common)


def test_with_an_empty_head_fedper_is_fedavg_and_has_a_global_model() -> None:
    ours = toy.federation("fedper", preset("fedper", "paper", private_start="common", lr=0.1, shared="all"))
    assert_same(toy.after(ours, 3).server.shared, toy.after(toy.federation(), 3).server.weights)
    assert ours.method.common is not None
    assert toy.federation("fedper", preset("fedper", "paper")).method.common is None


@pytest.mark.parametrize("method", ["fedper", "lgfedavg"])
def test_with_everything_private_it_is_local_training(method: str) -> None:
    common = {"private_start": "common"} if method == "fedper" else {}
    ours = toy.after(toy.federation(method, preset(method, "paper", lr=0.1, shared="none", **common)), 3)
    alone = toy.after(toy.federation("local", preset("local", "paper", lr=0.1)), 3)
    assert_same(ours.clients.own, alone.clients.own)


def test_with_everything_private_fedrep_is_local_training_in_its_own_order() -> None:
    fields = preset("fedrep", "paper", lr=0.1, momentum=0.0, shared="none", head_epochs=2)
    ours = toy.after(toy.federation("fedrep", fields), 3)
    alone = toy.federation("local", preset("local", "paper", lr=0.1), feed=Feed(4, 2, "epochs"))
    assert_same(ours.clients.own, toy.after(alone, 3).clients.own)
    # Turn by turn, each batch takes a step of everything and then `head_steps` of what is private: everything again.
    fields = preset("fedrep", "bpfed", optimiser="sgd", optimiser_state="fresh", lr=0.1, shared="none", head_steps=1)
    ours = toy.after(toy.federation("fedrep", fields, feed=Feed(1, 2, order="full")), 3)
    alone = toy.federation("local", preset("local", "paper", lr=0.1), feed=Feed(1, 4, order="full"))
    assert_same(ours.clients.own, toy.after(alone, 3).clients.own)


def test_a_lost_broadcast_is_local_training() -> None:
    ours = toy.after(toy.federation("lgfedavg", preset("lgfedavg", "bpfed", lr=0.01)), 3)
    alone = toy.after(toy.federation("local", preset("local", "reference", lr=0.01)), 3)
    assert_same({name: ours.clients.own[name] for name in ALL}, {name: alone.clients.own[name] for name in ALL})


def test_what_is_reset_begins_every_visit_as_it_began_the_first() -> None:
    federation = toy.federation("fedper", preset("fedper", "paper", private_start="common", lr=0.1, reset="head"))
    state = toy.after(federation, 2)
    assert not state.clients.own, "nothing is kept"
    assert_clients(state.clients.beginnings, [start(federation).server.private] * 3)
    # Two rounds by hand: each visit puts the first head on the averaged body.
    first = initial(federation)
    data, common = Data(federation), {name: first[name] for name in BODY}
    for _ in range(2):
        clients = [PartlyShared(first | common, SGD, kept=False) for _ in data.clients()]
        for number, client in enumerate(clients):
            together(data, number, client)
        common = data.mean([{name: c.weights[name].detach() for name in BODY} for c in clients])
    assert_same(state.server.shared, common)


def test_private_layers_begin_as_each_client_s_own_draw_where_the_paper_draws_them() -> None:
    own = start(toy.federation("fedper", preset("fedper", "paper"))).clients.own["head.weight"]
    assert not torch.allclose(own[0], own[1]) and not torch.allclose(own[1], own[2])
    common = start(toy.federation("fedper", preset("fedper", "reference"))).clients.own["head.weight"]
    assert torch.equal(common[0], common[1])
