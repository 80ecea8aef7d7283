"""pFedGP: steps and predictions against a dense plain loop, a toy that no linear head can do, protocols, its notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import toy
from agreement import assert_same, preset
from fedbayes.bayes.class_tree import ClassTree, class_tree
from fedbayes.bayes.gp_classifier import Rbf, Values, gibbs, probability
from fedbayes.evaluation.evaluate import predict_pm, visit_clients
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Feed
from fedbayes.federation.lifting import Lifting
from fedbayes.federation.loop import Federation, State, advance, start
from fedbayes.federation.protocols import for_newcomers, under_protocol
from fedbayes.federation.resident import Resident, lay_out
from fedbayes.methods import load_method
from fedbayes.methods.pfedgp import chain_stream, second_half
from fedbayes.models import load_network
from fedbayes.models.network import Network
from fedbayes.reading import ConfigError

KERNEL = Rbf(8.0, 1.0, 1e-3)


def own_data(data: Resident, client: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = data.train.rows[client, : data.train.sizes[client]]
    return data.inputs[rows].double(), data.labels[rows]


def dense_features(weights: dict[str, torch.Tensor], x: torch.Tensor, embedding: str = "linear") -> torch.Tensor:
    hidden = x.flatten(1) @ weights["hidden0.weight"].T + weights["hidden0.bias"]
    hidden = hidden if embedding == "linear" else hidden.clamp_min(0)
    return hidden / hidden.square().sum(1, keepdim=True).sqrt().clamp_min(1e-12)


def dense_left(
    z: torch.Tensor, side: torch.Tensor, new: torch.Tensor, omega: torch.Tensor, link: Any = "probability"
) -> torch.Tensor:
    """Probability of the left side, chain by chain, by inverses: f* has mean K*^T K^-1 (K^-1 + Omega)^-1 kappa."""

    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return 8 * torch.exp(-(a[:, None] - b[None]).square().sum(2) / 2)

    K, cross = kernel(z, z) + 1e-3 * torch.eye(len(z)).double(), kernel(z, new)
    inverse, found = torch.linalg.inv(K), []
    for own in omega:
        sigma = torch.linalg.inv(inverse + torch.diag(own))
        mean = cross.T @ inverse @ sigma @ (side.double() - 0.5)
        variance = 8 - (cross * ((inverse - inverse @ sigma @ inverse) @ cross)).sum(0)
        found.append(probability(Values(mean[None], variance[None]), link))
    return torch.stack(found).mean(0)


def sides(tree: ClassTree, node: int, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Who is at a node, and who of all is on its left."""
    left, right = (torch.tensor([bool(table[node, label]) for label in y]) for table in (tree.left, tree.right))
    return left | right, left


def plain_visit(
    weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, key: torch.Tensor, fields: dict[str, Any]
) -> dict[str, torch.Tensor]:
    """A visit with torch's own optimiser; omega, which has no gradient, comes from the chains under test elsewhere."""
    moving = {name: w.clone().requires_grad_() for name, w in weights.items()}
    descent = torch.optim.SGD(
        moving.values(), fields["lr"], momentum=fields["momentum"], weight_decay=fields["weight_decay"]
    )
    for number in range(fields["inner_steps"]):
        step_key = rng.fold(key, number)
        z = dense_features(moving, x, fields["embedding"])
        tree = class_tree(z.detach(), y, toy.CLASSES)
        second = second_half(y, toy.CLASSES, rng.generator(rng.fold(step_key, 0)))
        loss = torch.zeros((), dtype=torch.float64)
        for node in tree.inner:
            at, left = sides(tree, node, y)
            known, asked = at & ~second, at & second
            if not asked.any():
                continue
            own = z.detach()[known]
            omega = gibbs(KERNEL.within(own), left[known], fields["chains"], fields["sweeps"],
                          chain_stream(step_key, node))  # fmt: skip
            p = dense_left(z[known], left[known], z[asked], omega, fields["link"])
            loss = loss - torch.where(left[asked], p, 1 - p).log().mean()
        descent.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(moving.values(), fields["clip"])
        descent.step()
    return {name: w.detach() for name, w in moving.items()}


@pytest.mark.parametrize(
    ("name", "clip", "embedding"),
    [("paper", 50.0, "linear"), ("paper", 0.02, "activated"), ("reference", 50.0, "activated")],
)
def test_rounds_are_those_of_a_plain_loop(name: str, clip: float, embedding: str) -> None:
    fields = preset("pfedgp", name, inner_steps=2, clip=clip, chains=3, sweeps=2, embedding=embedding)
    federation = toy.federation("pfedgp", fields)
    weights = start(federation).server.weights
    assert list(weights) == ["hidden0.weight", "hidden0.bias"], "the head is not shared"
    for round_ in range(2):
        visits = []
        for client in range(3):
            # The first phase of a visit; its steps fold their number.
            key = rng.fold(federation.key("train"), round_, client, 1)
            visits.append(plain_visit(weights, *own_data(federation.data, client), key, fields))
        weights = {n: (visits[0][n] + visits[1][n] + visits[2][n]) / 3 for n in weights}
    # The plain loop inverts K, whose condition is near 1e4 to 1e5.
    assert_same(toy.after(federation, 2).server.weights, weights, atol=1e-9)


def test_predictions_are_products_of_dense_predictions() -> None:
    federation = toy.federation("pfedgp", preset("pfedgp", "paper", test_chains=4, sweeps=3))
    state = toy.after(federation, 1)
    found = predict_pm(federation, state)
    for client in range(3):
        x, y = own_data(federation.data, client)
        rows = federation.data.test.rows[client, : federation.data.test.sizes[client]]
        z, new = (dense_features(state.server.weights, part) for part in (x, federation.data.inputs[rows].double()))
        tree = class_tree(z, y, toy.CLASSES)
        key = rng.fold(federation.key("adapt"), 1, client, 0)
        expected = torch.ones(len(new), toy.CLASSES).double()
        for node in tree.inner:
            at, left = sides(tree, node, y)
            omega = gibbs(KERNEL.within(z[at]), left[at], 4, 3, chain_stream(key, node))
            p = dense_left(z[at], left[at], new, omega)
            for label in range(toy.CLASSES):
                if tree.left[node, label]:
                    expected[:, label] *= p
                if tree.right[node, label]:
                    expected[:, label] *= 1 - p
        absent = [label for label in range(toy.CLASSES) if label not in y]
        expected[:, absent] = 0
        torch.testing.assert_close(found.probs[found.clients == client], expected, rtol=0, atol=1e-9)


def labelled(labels: list[list[int]], new: int = 4) -> Resident:
    """Clients with given labels at random points, each tested on `new` others."""
    stream = np.random.default_rng(0)
    flat = [label for own in labels for label in own]
    ends = np.cumsum([0, *map(len, labels)])
    total, tests = len(flat), new * len(labels)
    inputs = stream.normal(size=(total + tests, 1, 1, 2)) + np.array([*flat, *[0] * tests])[:, None, None, None]
    train = [np.arange(ends[i], ends[i + 1]) for i in range(len(labels))]
    test = [total + np.arange(new * i, new * i + new) for i in range(len(labels))]
    every = np.array([*flat, *[0] * tests])
    return lay_out(inputs, every, train, test, toy.CLASSES, lambda x: x.double(), torch.device("cpu"))


def test_a_client_predicts_its_own_classes_only() -> None:
    federation = replace(
        toy.federation("pfedgp", preset("pfedgp", "paper")), data=labelled([[1] * 5, [0, 2] * 4, [0, 1, 2], []])
    )
    federation = replace(federation, clients_per_round=4)
    found = predict_pm(federation, toy.after(federation, 2))
    one, two, three, none = (found.probs[found.clients == client] for client in range(4))
    assert torch.equal(one, torch.tensor([[0.0, 1.0, 0.0]]).double().expand(4, 3)), "one class: that one"
    assert bool((two[:, 1] == 0).all()) and bool((two[:, [0, 2]] > 0).all())
    assert bool((three > 0).all())
    torch.testing.assert_close(none, torch.full((4, 3), 1 / 3).double())
    assert bool(torch.isfinite(torch.cat(trees.leaves(toy.after(federation, 2).server.weights)[1:])).all())


def quadrants(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of the plane and whether the signs of their coordinates agree."""
    points = np.random.default_rng(seed).normal(size=(count, 2))
    return points[:, None, None, :], (points[:, 0] * points[:, 1] > 0).astype(np.int64)


def mirrored(dtype: torch.dtype) -> Network:
    """A body with the features (x+, x-, y+, y-), which tell the quadrants apart but not by a hyperplane."""
    net = load_network("mlp", {"hidden": (4,)}, (1, 1, 2), 2)
    body = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=dtype)

    def init(stream: torch.Generator) -> dict[str, torch.Tensor]:
        found = {name: w.to(dtype) for name, w in net.init(stream).items()}
        return found | {"hidden0.weight": body, "hidden0.bias": torch.zeros(4, dtype=dtype)}

    return net._replace(init=init)


@pytest.mark.parametrize("name", ["paper", "reference"])
def test_it_does_what_no_linear_head_on_the_same_features_can(name: str) -> None:
    clients, train, test = 2, 80, 200
    x, y = quadrants(clients * (train + test), 0)
    owned = [np.arange(train) + i * train for i in range(clients)]
    tested = [clients * train + np.arange(test) + i * test for i in range(clients)]
    data = lay_out(x, y, owned, tested, 2, lambda v: v.double(), torch.device("cpu"))
    net = mirrored(torch.float64)
    # Features stay as they are, so that both heads have the same.
    fields = preset("pfedgp", name, lr=0.0)
    federation = Federation(
        load_method("pfedgp", fields, net), data, Feed(4, 1), 0, clients, "selected", Lifting("loop")
    )
    state = toy.after(federation, 1)
    assert_same(state.server, start(federation).server, atol=0)
    found = predict_pm(federation, state)
    for client in range(clients):
        own = found.clients == client
        gp = float((found.probs[own].argmax(1) == found.labels[own]).double().mean())
        z, labels = dense_features(state.server.weights, own_data(data, client)[0]), own_data(data, client)[1]
        new = dense_features(state.server.weights, torch.from_numpy(x[tested[client]]))
        linear = float((logistic_head(z, labels)(new) == found.labels[own]).double().mean())
        # By symmetry the likeliest head of all data is no head; 200 samples spread an accuracy of 0.5 by 0.035.
        assert gp > 0.9 and linear < 0.65, (gp, linear)


def logistic_head(z: torch.Tensor, y: torch.Tensor) -> Any:
    """The maximum-likelihood linear head, by L-BFGS on a convex function."""
    weight, bias = torch.zeros(2, z.shape[1]).double().requires_grad_(), torch.zeros(2).double().requires_grad_()
    solver = torch.optim.LBFGS([weight, bias], max_iter=500, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(z @ weight.T + bias, y)
        loss.backward()
        return loss

    solver.step(closure)
    return lambda new: (new @ weight.T + bias).argmax(1)


def test_training_makes_better_features() -> None:
    """One of six inputs decides: the network learns from clients of 20 samples to look at it, and new samples gain."""
    clients, train, test = 3, 20, 100
    x = np.random.default_rng(0).normal(size=(clients * (train + test), 1, 1, 6))
    y = (x[:, 0, 0, 0] > 0).astype(np.int64)
    owned = [np.arange(train) + i * train for i in range(clients)]
    tested = [clients * train + np.arange(test) + i * test for i in range(clients)]
    data = lay_out(x, y, owned, tested, 2, lambda v: v.float(), torch.device("cpu"))
    net = load_network("mlp", {"hidden": (8,)}, (1, 1, 6), 2)
    method = load_method("pfedgp", preset("pfedgp", "paper", lr=0.3), net)
    federation = Federation(method, data, Feed(4, 1), 0, clients, "selected", Lifting("loop"))

    def accuracy(state: State) -> float:
        found = predict_pm(federation, state)
        return float((found.probs.argmax(1) == found.labels).double().mean())

    before, after = accuracy(start(federation)), accuracy(toy.after(federation, 40))
    # 300 samples spread an accuracy by at most 0.029.
    assert after > before + 0.09, (before, after)


def test_models_of_clients_stand_side_by_side() -> None:
    federation = toy.federation("pfedgp", preset("pfedgp", "paper"))
    state, adapt, key = start(federation), federation.method.adapt, federation.key("adapt")
    together = visit_clients(federation, state, adapt, range(3), key).out["pm"]
    assert together.features.shape == (3, 12, 5) and together.omega.shape == (3, 2, 30, 12)
    for client in range(3):
        alone = visit_clients(federation, state, adapt, range(client, client + 1), key).out["pm"]
        assert_same(trees.take(together, client), trees.take(alone, 0), atol=0)


@pytest.mark.parametrize("personal", ["broadcast", "trained"])
def test_protocols_without_data_are_refused(personal: str) -> None:
    federation = toy.federation("pfedgp", preset("pfedgp", "paper"))
    federation = replace(federation, method=under_protocol(federation.method, personal))
    with pytest.raises(ConfigError, match=r"method pfedgp: protocol.personal: found .* expected"):
        predict_pm(federation, start(federation))


def test_other_protocols() -> None:
    federation = toy.federation("pfedgp", preset("pfedgp", "paper"))
    state = toy.after(federation, 1)
    own = predict_pm(federation, state).probs
    adapted = replace(federation, method=under_protocol(federation.method, "adapted", 2))
    assert torch.equal(predict_pm(adapted, state).probs, own), "data are data, however often they are looked at"
    tuned = replace(federation, method=under_protocol(federation.method, "fine-tuned"))
    found = predict_pm(tuned, state).probs
    torch.testing.assert_close(found.sum(1), torch.ones(15).double())
    assert not torch.allclose(found, own, atol=1e-4)
    assert for_newcomers(federation.method, "frozen-shared") is federation.method


def test_a_network_that_has_diverged_has_a_loss_that_says_so_and_predicts_nothing() -> None:
    federation = toy.federation("pfedgp", preset("pfedgp", "paper"))
    state = start(federation)
    broken = state._replace(server=trees.each(lambda leaf: torch.full_like(leaf, torch.nan), state.server))
    after, report = advance(federation, broken)
    assert bool(report.info["loss"].isnan().all())
    assert bool(predict_pm(federation, after).probs.isnan().all())


def test_halves_are_stratified() -> None:
    y = torch.tensor([0] * 5 + [2] * 4 + [1])
    second = second_half(y, 4, torch.Generator().manual_seed(0))
    assert [int(second[y == label].sum()) for label in range(3)] == [2, 0, 2]
    chosen = sum(second_half(y, 4, torch.Generator().manual_seed(seed)).int() for seed in range(300))
    # Each sample of a class is as likely, 2 of 5 and 2 of 4; five standard deviations of 300 draws are at most 43.3.
    assert bool(((chosen - torch.where(y == 0, 120, torch.where(y == 2, 150, 0))).abs() < 44).all())


def test_a_network_without_a_body_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"method pfedgp: network: found one with the single layer head; expected"):
        load_method("pfedgp", preset("pfedgp", "paper"), load_network("mlp", {"hidden": ()}, (1, 1, 2), 3))


def test_the_notice_says_n_and_its_cube() -> None:
    method = toy.federation("pfedgp", preset("pfedgp", "paper")).method
    assert method.notice is not None
    # 20 chains: 5 sweeps of a third of a cube and about 4 cubes for the prediction and its gradient, on half of the
    # samples, and the nodes below the root a third of that more: 18.9 n^3 a client.
    text = method.notice(torch.tensor([100, 100, 200]), torch.tensor([600, 0, 0]), 2)
    assert "n = 200, n^3 = 8.0e+06" in text
    assert "a round of 2 clients takes about 1e+08 floating point operations" in text
    # 30 chains: 5 sweeps, 30 * 5 / 3 * 4 / 3 = 66.7 n^3, together 6.7e8. The first client's 600 tests are two blocks,
    # 30 * 2 / 3 * 4 / 3 = 26.7 n^3 = 2.7e7, and 30 * 1.5 * 600 n^2 = 2.7e8.
    assert "a test of all 3 about 1e+09" in text
