"""PFNM: planted permutations, identical clients, the cap, local visits by plain loops, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import plain_loop
import toy
from agreement import assert_same, preset
from fedbayes.federation import trees
from fedbayes.federation.contract import Cohort, Method
from fedbayes.federation.loop import rounds, send, start
from fedbayes.methods import load_method
from fedbayes.methods.pfnm import Server, Up, columns
from fedbayes.models import load_network
from fedbayes.reading import ConfigError
from plain_loop import Data, Weights, grad, moved

WIDTH, INPUTS, CLASSES = 9, 4, 3
KEY = torch.tensor(5)
# A prior without weight: atoms are means of what is matched to them.
FLAT = {"s0": 1e12, "mu0_bias": 0.0}


NET = load_network("mlp", {"hidden": (WIDTH,)}, (1, 1, INPUTS), CLASSES)


def perceptron(**fields: Any) -> Method:
    """The method for 4-9-3 in float64."""
    double = NET._replace(init=lambda stream: {name: w.double() for name, w in NET.init(stream).items()})
    return load_method("pfnm", preset("pfnm", "reference", **fields), double)


def weights(seed: int) -> Weights:
    return {name: w.double() for name, w in NET.init(torch.Generator().manual_seed(seed)).items()}


def merged(
    method: Method,
    networks: list[Weights],
    counts: list[list[int]] | None = None,
    server: Server | None = None,
    ids: list[int] | None = None,
    population: int | None = None,
) -> Server:
    """The server after uploads of some clients (all, unless `ids` says otherwise)."""
    places = torch.arange(len(networks)) if ids is None else torch.tensor(ids)
    population = population or len(networks)
    server = server or method.init(torch.tensor(1), population)
    samples = torch.tensor(counts or [[10] * CLASSES] * len(networks))
    cohort = Cohort(places, samples.sum(1), population, population)
    found: Server = method.merge(server, Up(trees.stack(networks), samples), cohort, KEY)
    return found


def outputs(network: Weights, x: Tensor) -> Tensor:
    hidden = torch.relu(x @ network["hidden0.weight"].T + network["hidden0.bias"])
    return hidden @ network["head.weight"].T + network["head.bias"]


INPUT = torch.randn(20, INPUTS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_permutation_is_recovered_exactly(seed: int) -> None:
    stream = torch.Generator().manual_seed(seed)
    planted, method = weights(seed), perceptron()
    orders = [torch.randperm(WIDTH, generator=stream) for _ in range(5)]
    networks = []
    for order in orders:
        own = columns(planted, order)
        networks.append({n: w + 1e-3 * torch.randn(w.shape, generator=stream).double() for n, w in own.items()})
    server = merged(method, networks)
    assert int(server.used) == WIDTH
    global_of = torch.empty(WIDTH, dtype=torch.int64)
    global_of[orders[0]] = server.assignment[0]
    assert torch.equal(server.assignment, torch.stack([global_of[order] for order in orders]))
    # A client gets its neurons in its own order.
    ours = [method.send(server, torch.tensor(client)) for client in range(5)]
    for order, own in zip(orders, ours, strict=True):
        assert_same(own, columns(columns(server.weights, global_of), order))


def test_identical_clients_merge_into_one_with_the_same_outputs() -> None:
    network = weights(0)
    server = merged(perceptron(**FLAT), [network] * 6)
    assert int(server.used) == WIDTH
    torch.testing.assert_close(outputs(server.weights, INPUT), outputs(network, INPUT), rtol=0, atol=1e-9)


def test_neurons_that_are_not_used_do_nothing() -> None:
    server = merged(perceptron(max_neurons=40), [weights(0)] * 3)
    assert server.weights["hidden0.weight"].shape == (40, INPUTS)
    for name, unused in (("hidden0.weight", 0), ("hidden0.bias", 0), ("head.weight", 1)):
        assert not server.weights[name].narrow(unused, WIDTH, 40 - WIDTH).any()
    cut = columns(server.weights, torch.arange(WIDTH))
    torch.testing.assert_close(outputs(server.weights, INPUT), outputs(cut, INPUT), rtol=0, atol=1e-14)


def test_with_a_flat_prior_and_equal_classes_it_is_the_plain_mean() -> None:
    near = [{n: w + 1e-3 * weights(9 + i)[n] for n, w in weights(0).items()} for i in range(4)]
    server = merged(perceptron(**FLAT), near)
    mean = {name: torch.stack([own[name] for own in near]).mean(0) for name in near[0]}
    assert_same(columns(server.weights, server.assignment[0]), mean, atol=1e-10)


def test_classes_weigh_outgoing_weights_and_a_class_of_nobody_keeps_the_prior() -> None:
    s, s0, mean = 0.5, 2.0, 0.3
    one, other = weights(0), weights(0) | {name: weights(1)[name] for name in ("head.weight", "head.bias")}
    method = perceptron(s=s, s0=s0, mu0_bias=mean)
    server = merged(method, [one, other], counts=[[30, 5, 0], [10, 0, 0]])
    assert int(server.used) == WIDTH
    found = method.send(server, torch.tensor(0))
    share = torch.tensor([[0.75, 1.0, 0.0], [0.25, 0.0, 0.0]], dtype=torch.float64)
    for name, centre, by_class in (("head.weight", 0.0, share[:, :, None]), ("head.bias", mean, share)):
        weighted = by_class[0] * one[name] / s + by_class[1] * other[name] / s + centre / s0
        torch.testing.assert_close(found[name], weighted / (1 / s0 + by_class.sum(0) / s))
    for name, centre in (("hidden0.weight", 0.0), ("hidden0.bias", mean)):
        torch.testing.assert_close(found[name], (2 * one[name] / s + centre / s0) / (2 / s + 1 / s0))


def test_an_absent_client_counts_with_its_last_upload() -> None:
    near = [{n: w + 1e-3 * weights(9 + i)[n] for n, w in weights(0).items()} for i in range(4)]
    method = perceptron(**FLAT)
    server = merged(method, near[:2], ids=[0, 2], population=3)
    assert server.assignment[1].tolist() == [-1] * WIDTH
    server = merged(method, near[2:], ids=[1, 2], population=3, server=server)
    mean = {n: (near[0][n] + near[2][n] + near[3][n]) / 3 for n in near[0]}
    assert_same(columns(server.weights, server.assignment[0]), mean, atol=1e-10)


def test_a_client_that_was_never_matched_gets_the_neurons_that_most_have() -> None:
    network = weights(0)
    # Clients 0 and 1 are alike; client 2 shares none of its neurons with them.
    other = {name: 50 * w for name, w in weights(1).items()}
    method = perceptron()
    server = merged(method, [network, network, other], ids=[0, 1, 3], population=4)
    assert int(server.used) == 2 * WIDTH
    common = sorted(server.assignment[0].tolist())
    assert sorted(server.assignment[1].tolist()) == common == server.popular.tolist()
    assert_same(method.send(server, torch.tensor(2)), columns(server.weights, torch.tensor(common)))


@pytest.mark.parametrize("start_", ["own", "common"])
def test_before_the_first_matching_clients_get_where_they_begin(start_: str) -> None:
    federation = toy.federation("pfnm", preset("pfnm", "paper", start=start_))
    state = start(federation)
    down = send(federation, state.server, torch.arange(3))
    assert_same(down, state.server.uploads)
    alike = torch.equal(down["hidden0.weight"][0], down["hidden0.weight"][1])
    assert alike == (start_ == "common")


@pytest.mark.parametrize("cap", [5, 6, 8])
def test_the_cap_is_kept_round_by_round(cap: int) -> None:
    fields = preset("pfnm", "reference", gamma=1e9, lr=0.5, max_neurons=cap)
    federation = toy.federation("pfnm", fields)
    used = [int(state.server.used) for state, _ in rounds(federation, start(federation), 4)]
    assert used == [cap] * 4, "these clients would like 15 neurons"
    free = toy.federation("pfnm", fields | {"max_neurons": 100})
    assert int(toy.after(free, 1).server.used) > cap


def test_the_global_layer_grows_by_the_neurons_that_went_their_own_way() -> None:
    network, method = weights(0), perceptron(**FLAT)
    first = merged(method, [network] * 3)
    assert int(first.used) == WIDTH
    away = {name: w.clone() for name, w in network.items()}
    away["hidden0.weight"][:4] += 100 * weights(1)["hidden0.weight"][:4]
    second = merged(method, [network, network, away], server=first)
    assert int(second.used) == WIDTH + 4
    assert torch.equal(second.assignment[0], second.assignment[1])
    assert torch.equal(second.assignment[2, 4:], second.assignment[0, 4:]), "the others stay where they were"
    assert not set(second.assignment[2, :4].tolist()) & set(second.assignment[0].tolist())
    assert int(merged(method, [network] * 3, server=second).used) == WIDTH, "and what nobody has is gone"


def test_the_global_layer_grows_from_round_to_round() -> None:
    federation = toy.federation("pfnm", preset("pfnm", "reference", start="common", lr=0.1, s=0.01))
    used = [int(state.server.used) for state, _ in rounds(federation, start(federation), 4)]
    assert 5 < used[0] < used[-1] <= 15


def test_local_visits_against_a_plain_loop() -> None:
    fields = preset("pfnm", "pfedbayes", lr=0.1, lr_decay=0.5, reg=0.3, reg_decay=0.2)
    federation = toy.federation("pfnm", fields)
    data, state = Data(federation), start(federation)
    for round_ in range(4):
        down = send(federation, state.server, torch.arange(3))
        state = next(rounds(federation, state, round_ + 1))[0]
        times = max(round_ - 1, 0)
        for client in range(3):
            received: Weights = trees.take(down, client)
            own = received
            for _ in range(plain_loop.STEPS):
                slope = grad(own, *data.next(client))
                for name in ("hidden0.weight", "head.weight"):
                    centre = received[name] if round_ else torch.zeros_like(received[name])
                    slope[name] = slope[name] + 0.3 * 0.2**times * (own[name] - centre)
                own = moved(own, slope, 0.1 * 0.5**times)
            assert_same(trees.take(state.server.uploads, client), own)


def test_a_visit_with_amsgrad_against_torch() -> None:
    federation = toy.federation("pfnm", preset("pfnm", "paper", reg=0.0))
    data, state = Data(federation), start(federation)
    down = send(federation, state.server, torch.arange(3))
    state = next(rounds(federation, state, 1))[0]
    for client in range(3):
        own = {name: w.clone().requires_grad_() for name, w in trees.take(down, client).items()}
        steps = torch.optim.Adam(own.values(), lr=0.01, amsgrad=True)
        for _ in range(plain_loop.STEPS):
            steps.zero_grad()
            plain_loop.loss(own, *data.next(client)).backward()
            steps.step()
        assert_same(trees.take(state.server.uploads, client), {n: w.detach() for n, w in own.items()}, atol=1e-9)


def test_the_state_keeps_its_shapes_and_types() -> None:
    federation = toy.federation("pfnm", preset("pfnm", "paper"), dtype=torch.float32, clients_per_round=2)
    before, after = start(federation).server, toy.after(federation, 3).server
    for a, b in zip(trees.leaves(before), trees.leaves(after), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)


def test_the_personal_model_is_the_client_s_part_of_the_global_network() -> None:
    federation = toy.federation("pfnm", preset("pfnm", "paper"))
    state = toy.after(federation, 2)
    visit = federation.method.adapt
    for client in range(3):
        facts = trees.take(federation.data.facts(torch.arange(3), 2, federation.feed), client)
        work = visit.begin(federation.method.send(state.server, torch.tensor(client)), None, facts, KEY)
        expected = columns(state.server.weights, state.server.assignment[client])
        assert not visit.phases
        assert_same(visit.end(work)["pm"], expected)


def test_other_networks_are_refused_in_one_sentence() -> None:
    fields = preset("pfnm", "paper")
    cnn = load_network("cnn", {"channels": (2,), "kernel": 3, "pooled": (False,), "hidden": (4,)}, (1, 8, 8), CLASSES)
    deep = load_network("mlp", {"hidden": (4, 4)}, (1, 1, 2), CLASSES)
    straight = load_network("mlp", {"hidden": ()}, (1, 1, 2), CLASSES)
    for network in (cnn, deep, straight):
        with pytest.raises(ConfigError) as refused:
            load_method("pfnm", fields, network)
        text = str(refused.value)
        assert text.startswith("method pfnm: network: found kind") and "\n" not in text and ". " not in text
        assert repr(network.kind) in text and ", ".join(network.layers) in text
        assert "expected a perceptron with one hidden layer" in text


def test_a_cap_below_the_clients_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="method pfnm: max_neurons: found 4; expected at least 5"):
        toy.federation("pfnm", preset("pfnm", "paper", max_neurons=4))
