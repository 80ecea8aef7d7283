"""What methods send, keep and work out, counted by the engine, against the methods' cost table (docs/methods.md).

The table is in models: `w` the whole network, `body` and `head` its parts; here the toy perceptron 2-5-3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

import toy
from agreement import preset
from fedbayes.federation import trees
from fedbayes.federation.contract import Feed
from fedbayes.federation.loop import advance, start
from fedbayes.federation.protocols import own_state, under_protocol

W, BODY, HEAD = 33, 15, 18
STEPS = 3


class Cost(NamedTuple):
    """Numbers sent to and by a client in a round, kept by it, and gradients a step."""

    down: int
    up: int
    kept: int
    gradients: int


# Adam keeps two numbers a weight and two for the bias of its moments for each of the four tensors; the table leaves
# optimisers out.
ADAM = 2 * W + 2 * 4

CASES: list[tuple[str, dict[str, Any], Cost]] = [
    ("local", preset("local", "paper"), Cost(0, 0, W, 1)),
    ("local", preset("local", "reference"), Cost(0, 0, W + ADAM, 1)),
    ("fedavg", preset("fedavg", "paper"), Cost(W, W, 0, 1)),
    ("fedbe", preset("fedbe", "paper", epochs=1), Cost(W, W, 0, 1)),
    # The prior is a mean for each number of the head and one rho; the chain so far is kept in five sums and its length.
    ("fedpop", preset("fedpop", "paper", steps=STEPS, burn_in=1), Cost(W + 1, W + 1, 5 * HEAD + 5 * HEAD + 1, 1)),
    ("fedpop", preset("fedpop", "mended", steps=STEPS, optimiser_state="fresh"), Cost(BODY, BODY, 2 * HEAD, 5)),
    ("fedpop", preset("fedpop", "bpfed", steps=STEPS, optimiser_state="fresh"), Cost(BODY, BODY, BODY + 2 * HEAD, 5)),
    ("fedprox", preset("fedprox", "paper"), Cost(W, W, 0, 1)),
    ("ditto", preset("ditto", "paper"), Cost(W, W, W, 2)),
    ("perfedavg", preset("perfedavg", "reference"), Cost(W, W, 0, 2)),
    ("perfedavg", preset("perfedavg", "paper"), Cost(W, W, 0, 4)),
    ("pfedme", preset("pfedme", "paper"), Cost(W, W, W, 5)),
    ("heurfedamp", preset("heurfedamp", "paper"), Cost(W, W, W, 1)),
    ("fedamp", preset("fedamp", "paper"), Cost(W, W, W, 1)),
    ("fedper", preset("fedper", "paper"), Cost(BODY, BODY, HEAD, 1)),
    ("fedrep", preset("fedrep", "bpfed", optimiser_state="fresh"), Cost(BODY, BODY, HEAD, 5)),
    ("lgfedavg", preset("lgfedavg", "paper"), Cost(HEAD, HEAD, BODY, 1)),
    # Self-FL sends two numbers more and uploads one; a client keeps its model and the mean of its models, the variance
    # of these, the one it uploaded, how many they are and when it was last active.
    ("selffl", preset("selffl", "paper"), Cost(W + 2, W + 1, 2 * W + 4, 1)),
    ("bpfed", preset("bpfed", "paper"), Cost(2 * BODY, 2 * BODY, 2 * HEAD, 1)),
    ("feduab", preset("feduab", "paper"), Cost(2 * W, 2 * W, 0, 5)),
    ("feduab", preset("feduab", "own-bpfed", draws=2), Cost(2 * BODY, 2 * BODY, 2 * HEAD, 2)),
    # LR-BPFL keeps gates and which ranks are left: 8 for each of two layers. Factors have a
    # row for each channel, 5 + 2 and 3 + 5.
    ("lrbpfl", preset("lrbpfl", "paper"), Cost(W, W, 32, 2 * 4)),
    ("lrbpfl", preset("lrbpfl", "joint", masks="kept"), Cost(W, W, 32 + 2 * 8 * 15, 4)),
    # MetaVD sends the log-variances of the stochastic weights along: those of the hidden layer, or all but biases.
    ("metavd", preset("metavd", "reference"), Cost(W + 10, W + 10, 0, 3)),
    ("metavd", preset("metavd", "all-layers"), Cost(2 * W - 8, 2 * W - 8, 0, 3)),
    # PFNM uploads the samples of each class beside the network.
    ("pfnm", preset("pfnm", "paper"), Cost(W, W + toy.CLASSES, 0, 1)),
    ("pfedgp", preset("pfedgp", "paper", inner_steps=STEPS), Cost(BODY, BODY, 0, 1)),
    ("pfedbayes", preset("pfedbayes", "paper"), Cost(2 * W, 2 * W, 2 * W + 4 * (2 * W + 2), 1)),
    ("pfedbayes", preset("pfedbayes", "reference"), Cost(2 * W, 2 * W, 2 * W + 4 * (2 * W + 2), 5)),
    ("pfedbayes", preset("pfedbayes", "bpfed"), Cost(2 * W, 2 * W, 2 * W + 4 * (2 * W + 2), 5)),
    ("pfedbayes", preset("pfedbayes", "paper", draws=3), Cost(2 * W, 2 * W, 2 * W + 4 * (2 * W + 2), 3)),
]


@pytest.mark.parametrize("lift", ["vmap", "loop"])
@pytest.mark.parametrize(("method", "fields", "cost"), CASES, ids=[f"{m}-{i}" for i, (m, _, _) in enumerate(CASES)])
def test_the_cost_table(method: str, fields: dict[str, Any], cost: Cost, lift: Any) -> None:
    federation = toy.federation(method, fields, sizes=(12, 12, 12), lift=lift)
    state, report = advance(federation, start(federation))
    kept = trees.numel(state.clients) // 3
    assert Cost(report.floats_down, report.floats_up, kept, round(report.gradients / STEPS)) == cost
    assert report.gradients == STEPS * cost.gradients


@pytest.mark.parametrize(
    ("method", "fields", "steps"),
    [
        ("fedavg", toy.FEDAVG, (STEPS,)),
        ("lrbpfl", preset("lrbpfl", "paper"), (STEPS, STEPS)),
        ("lrbpfl", preset("lrbpfl", "one-w-step"), (STEPS, 1)),
        ("lrbpfl", preset("lrbpfl", "reference"), (15, 1)),
        ("lrbpfl", preset("lrbpfl", "joint"), (STEPS,)),
        ("pfedgp", preset("pfedgp", "paper"), (1,)),
        ("fedrep", preset("fedrep", "paper"), (3 * 10, 3 * 1)),
    ],
)
@pytest.mark.parametrize("lift", ["vmap", "loop"])
def test_steps_are_counted_in_each_phase_of_a_visit(
    method: str, fields: dict[str, Any], steps: tuple[int, ...], lift: Any
) -> None:
    federation = toy.federation(method, fields, sizes=(12, 12, 12), lift=lift)
    assert advance(federation, start(federation))[1].steps == steps


def test_fedreps_epochs_are_counted_as_they_are_taken() -> None:
    # 12 samples are three batches of four: ten epochs of the head and one of the body.
    federation = toy.federation("fedrep", preset("fedrep", "paper"), sizes=(12, 12))
    assert advance(federation, start(federation))[1].gradients == 3 * (10 + 1)


def test_unequal_clients_count_what_each_takes() -> None:
    federation = toy.federation(sizes=(4, 12), feed=Feed(4, 2, "epochs"))
    report = advance(federation, start(federation))[1]
    assert (report.gradients, report.steps) == ((2 + 6) / 2, ((2 + 6) / 2,))


def test_algorithm_2_uploads_two_models() -> None:
    federation = toy.federation("selffl", preset("selffl", "paper", algorithm=2))
    _, report = advance(federation, start(federation))
    assert (report.floats_down, report.floats_up) == (W + 2, 2 * W + 1)


def test_models_kept_for_a_protocol_are_not_the_method_s() -> None:
    federation = toy.federation()
    kept = replace(federation, method=under_protocol(federation.method, "trained"))
    assert trees.numel(own_state(start(kept).clients)) == 0 < trees.numel(start(kept).clients)


def test_gradients_are_counted_until_a_client_is_done_whatever_the_lift_and_the_chunk() -> None:
    fields = preset("selffl", "algorithm-2", lr=0.5, converge_steps=400, tolerance=1e-3)
    setting: dict[str, Any] = {"sizes": (4, 4, 4), "feed": Feed(1, 3, order="full")}
    patient = toy.federation("selffl", fields | {"tolerance": 1e-300}, **setting)
    assert advance(patient, start(patient))[1].gradients == 403, "three steps, then all that are allowed"
    found = set()
    for how in ({"lift": "vmap"}, {"lift": "vmap", "chunk": 2}, {"lift": "loop"}):
        federation = toy.federation("selffl", fields, **setting, **how)
        found.add(advance(federation, start(federation))[1].gradients)
    assert len(found) == 1 and 3 < found.pop() < 403
