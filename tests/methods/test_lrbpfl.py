"""LR-BPFL: FedAvg at its end, every step against autograd and torch.distributions, ranks that fall and stay fallen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

import toy
from agreement import assert_same, preset
from fedbayes.bayes.gaussian import Gaussian
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Batch, Feed
from fedbayes.federation.loop import Federation, advance, start
from fedbayes.methods import load_method
from fedbayes.methods.lrbpfl import Client, Work
from fedbayes.models import load_network

FIXED: dict[str, Any] = {
    "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "lr_mask": 0.0, "lr_gate": 0.0, "noise_std": 0.0,
    "initial_mu_std": 0.0, "gate": "none", "penalty": 0.0, "threshold": None, "bias": "plain", "scale": "mean",
    "initial_weights": "network",
}  # fmt: skip
LAYERS = {"hidden0": (5, 2), "head": (3, 5)}


@pytest.mark.parametrize("name", ["joint", "reference-joint"])
def test_a_fixed_mask_of_ones_is_fedavg(name: str) -> None:
    state = toy.after(toy.federation("lrbpfl", preset("lrbpfl", name, **FIXED)), 3)
    assert_same(state.server.weights, toy.after(toy.federation(), 3).server.weights)


def test_so_it_is_under_coordinate_descent_where_every_batch_is_everything() -> None:
    # The mask steps take batches of their own before W's; with all samples in each that makes no difference.
    everything = Feed(4, 3, order="full")
    state = toy.after(toy.federation("lrbpfl", preset("lrbpfl", "paper", **FIXED), feed=everything), 3)
    assert_same(state.server.weights, toy.after(toy.federation(feed=everything), 3).server.weights)


class Plain:
    """A client's loss as the two descriptions write it: rank by rank, one draw after the other."""

    def __init__(self, fields: dict[str, Any], client: Client, size: int) -> None:
        self.fields, self.alive, self.size = fields, client.alive, size

    def gates(self, gamma: Tensor) -> Tensor:
        if self.fields["gate"] == "sigmoid":
            return torch.sigmoid(gamma) * self.alive
        if self.fields["gate"] == "none":
            return torch.ones_like(gamma)
        opened = torch.clip(1.2 * torch.sigmoid(gamma) - 0.1, 0, 1)
        return torch.cat([torch.ones(len(gamma), 1, dtype=gamma.dtype), opened[:, 1:]], 1)

    def loss(self, weights: dict[str, Tensor], mu: Tensor, rho: Tensor, gamma: Tensor, batch: Batch, key: Tensor,
             stored: Tensor | None) -> Tensor:  # fmt: skip
        gates, rank = self.gates(gamma), self.fields["rank"]
        draws = []
        for draw in range(self.fields["draws"]):
            noise = rng.normal(rng.fold(key, draw), mu.numel(), mu.dtype)
            x, place, sigma = batch.x.flatten(1), 0, F.softplus(rho)
            for layer, (gate, (name, (m, n))) in enumerate(zip(gates, LAYERS.items(), strict=True)):
                factors = []
                for rows in (m, n):
                    own = slice(place, place + rows * rank)
                    mean = mu[own].view(rows, rank)
                    if self.fields["gate_on"] == "means":
                        mean = mean * gate
                    factors.append(mean + (sigma * noise)[own].view(rows, rank))
                    place += rows * rank
                out: Any = 0.0
                for i in range(rank):
                    scale = gate[i] if self.fields["gate_on"] == "product" else 1.0
                    out = out + scale * factors[0][:, i] * ((x * factors[1][:, i]) @ weights[f"{name}.weight"].T)
                x = out + weights[f"{name}.bias"] * (gate.sum() if self.fields["bias"] == "summed" else 1.0)
                x = torch.relu(x) if layer == 0 else x
            draws.append(F.log_softmax(x, 1)[torch.arange(len(batch.y)), batch.y])
        stacked = torch.stack(draws)
        fit = stacked.exp().mean(0).log() if self.fields["likelihood"] == "mixture" else stacked.mean(0)
        each = -fit.mean() + self.kl(mu if stored is None else stored, rho, gates) / self.size
        return (self.size if self.fields["scale"] == "dataset" else 1) * each + self.fields["penalty"] * (
            gates**2
        ).sum()

    def kl(self, mu: Tensor, rho: Tensor, gates: Tensor) -> Tensor:
        total, place, rank = torch.zeros((), dtype=mu.dtype), 0, self.fields["rank"]
        for layer, (m, n) in enumerate(LAYERS.values()):
            count = {
                "gates": float(gates[layer].detach().sum()),
                "nominal": rank,
                "left": float(self.alive[layer].sum()),
            }
            for rows in (m, n):
                own = slice(place, place + rows * rank)
                q = Normal(mu[own].view(rows, rank), F.softplus(rho[own]).view(rows, rank))
                p = Normal(
                    torch.full_like(q.mean, count[self.fields["prior_rank"]] ** -0.5), self.fields["prior_sigma"]
                )
                pair = (q, p) if self.fields["kl"] == "forward" else (p, q)
                total = total + (kl_divergence(*pair) * self.alive[layer]).sum()
                place += rows * rank
        return total


def visit(fields: dict[str, Any], alive: Tensor | None = None) -> tuple[Any, Work, Client, Batch]:
    """The method, a client's visit just begun, what the client keeps, and a batch of it."""
    federation = toy.federation("lrbpfl", fields)
    state, method = start(federation), federation.method
    facts = trees.take(federation.data.facts(torch.arange(3), 0, federation.feed), 0)
    client = trees.take(state.clients, 0)
    if alive is not None:
        client = client._replace(alive=alive)
    batch = Batch(federation.data.inputs[:4], federation.data.labels[:4], torch.ones(4, dtype=torch.float64))
    return method, method.train.begin(state.server.weights, client, facts, torch.tensor(5)), client, batch


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("paper", {"rank": 3}),
        ("paper", {"rank": 3, "prior_rank": "left", "likelihood": "mixture"}),
        ("joint", {"rank": 3}),
        ("reference", {"rank": 3, "kl_mean": "current"}),
        ("reference-adaptive", {"rank": 3, "gate_start": 0.4}),
        ("paper", {"rank": 3, "scale": "mean"}),
        ("reference-joint", {"rank": 2, "momentum": 0.0}),
    ],
)
def test_steps_against_autograd_and_distributions(name: str, changes: dict[str, Any]) -> None:
    fields = preset("lrbpfl", name) | {"lr": 0.3, "lr_mask": 0.01, "lr_gate": 0.4, "kl_weight": 1.0} | changes
    alive = torch.ones(2, fields["rank"], dtype=torch.float64)
    if fields["gate"] == "sigmoid":
        alive[1, 2] = 0.0  # one rank of the head is gone
    method, work, client, batch = visit(fields, alive)
    plain, stored = Plain(fields, client, 7), work.stored.mu
    for phase in method.train.phases:
        joint, masks = len(method.train.phases) == 1, phase is method.train.phases[0]
        for number in range(2):
            key = torch.tensor(100 + number)
            steps = int(work.meter.steps)
            weights = {n: w.clone().requires_grad_() for n, w in work.weights.items()}
            mu, rho, gamma = (v.clone().requires_grad_() for v in (*work.mask.factors, work.mask.gamma))
            held = stored if fields["kl_mean"] == "stored" and steps > 0 else None
            loss = plain.loss(weights, mu, rho, gamma, batch, key, held)
            leaves = [mu, rho, gamma, *weights.values()]
            grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
            with torch.no_grad():
                found = phase.step(work, batch, key)
            expected_mask = (
                (mu - 0.01 * grads[0], rho - 0.01 * grads[1], gamma - 0.4 * grads[2])
                if masks or joint
                else (mu, rho, gamma)
            )
            assert_same(found.mask, [v.detach() for v in expected_mask], atol=1e-10)
            pull = [fields["weight_decay"] * w for w in weights.values()]
            if joint or not masks:
                expected = [w - 0.3 * (g + p) for w, g, p in zip(weights.values(), grads[3:], pull, strict=True)]
                # The first step of momentum is without it; further ones are tested with the optimiser.
                if number == 0 or not fields["momentum"]:
                    assert_same(found.weights, [v.detach() for v in expected], atol=1e-10)
            else:
                assert_same(found.weights, work.weights, atol=0)
            torch.testing.assert_close(found.meter.loss - work.meter.loss, loss.detach())
            work = found


def test_interleaved_steps_are_mask_steps_and_a_w_step() -> None:
    fields = preset("lrbpfl", "paper", w_steps="interleaved", mask_steps=2, lr=0.3, lr_mask=0.2)
    method, work, _, batch = visit(fields)
    three = Batch(*(torch.stack([part, part.flip(0), part]) for part in batch))
    coordinate, again, _, _ = visit(preset("lrbpfl", "paper", lr=0.3, lr_mask=0.2))
    with torch.no_grad():
        found = method.train.phases[0].step(work, three, torch.tensor(9))
        for number, step in enumerate((0, 0, 1)):
            one = Batch(*(part[number] for part in three))
            again = coordinate.train.phases[step].step(again, one, rng.fold(torch.tensor(9), number))
    assert_same(found, again)


def test_a_prior_mask_has_mean_one() -> None:
    for name in ("paper", "reference", "fixed-rank"):
        fields = preset("lrbpfl", name, initial_mu_std=0.0)
        method, work, _, _ = visit(fields)
        gates = method.adapt.end(work)["pm"].gates[0]
        left, right = (part.view(-1, fields["rank"]) for part in work.mask.factors.mu[: 7 * fields["rank"]].split(
            [5 * fields["rank"], 2 * fields["rank"]]))  # fmt: skip
        torch.testing.assert_close((left * gates) @ right.T, torch.ones(5, 2, dtype=torch.float64))


def after_a_visit(gamma: list[float], alive: list[float]) -> Client:
    """What a client keeps whose gates stand as given, in every layer."""
    method, work, _, _ = visit(preset("lrbpfl", "paper", rank=3))
    shape = work.alive.shape
    mask = work.mask._replace(gamma=torch.tensor(gamma, dtype=torch.float64).expand(shape))
    found: Client = method.train.end(
        work._replace(mask=mask, alive=torch.tensor(alive, dtype=torch.float64).expand(shape))
    )[0]
    return found


def test_pruning_is_at_the_threshold_for_good_and_spares_the_first_rank() -> None:
    # sigmoid(2.94) = 0.9498, sigmoid(2.95) = 0.9503.
    assert after_a_visit([2.0, 2.94, 2.95], [1.0, 1.0, 1.0]).alive[0].tolist() == [1.0, 0.0, 1.0]
    assert after_a_visit([9.0, 9.0, 9.0], [1.0, 0.0, 1.0]).alive[0].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("gate_on", ["product", "means"])
def test_a_pruned_rank_moves_nothing_and_adds_nothing(gate_on: str) -> None:
    alive = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    method, work, _, batch = visit(preset("lrbpfl", "paper", rank=2, gate_on=gate_on), alive)
    with torch.no_grad():
        found = method.train.phases[0].step(work, batch, torch.tensor(1))
    moved = (found.mask.factors.mu != work.mask.factors.mu)[2 * 7 :].view(-1, 2)
    assert moved[:, 0].all() and not moved[:, 1].any()
    assert found.mask.gamma[1, 1] == work.mask.gamma[1, 1] and found.mask.gamma[1, 0] != work.mask.gamma[1, 0]
    model = method.adapt.end(work)["pm"]
    # The head's factors are the last 16 numbers; every other one is of its second rank.
    wild = model.factors.rho.clone()
    wild[15::2] = 3.0
    other = model._replace(factors=Gaussian(model.factors.mu, wild))
    assert_same(method.predict(other, batch.x, torch.tensor(0)), method.predict(model, batch.x, torch.tensor(0)))


def test_ranks_fall_under_a_heavy_penalty_and_are_reported() -> None:
    fields = preset("lrbpfl", "paper", penalty=20.0, lr_gate=0.2)
    federation = toy.federation("lrbpfl", fields)
    _, report = advance(federation, start(federation))
    assert report.info["rank/hidden0"].tolist() == [1.0] * 3 and report.info["rank/head"].shape == (3,)
    free = toy.federation("lrbpfl", preset("lrbpfl", "fixed-rank", lr_gate=0.2))
    assert advance(free, start(free))[1].info["rank/hidden0"].tolist() == [8.0] * 3


def test_what_a_visit_begins_with() -> None:
    for masks in ("remade", "first", "kept"):
        federation = toy.federation("lrbpfl", preset("lrbpfl", "paper", masks=masks))
        facts = trees.take(federation.data.facts(torch.arange(3), 0, federation.feed), 0)

        def begun(state: Any, key: int, federation: Federation = federation, facts: Any = facts) -> Tensor:
            client = trees.take(state.clients, 0)
            work = federation.method.train.begin(state.server.weights, client, facts, torch.tensor(key))
            found: Tensor = work.mask.factors.mu
            return found

        first, second = start(federation), toy.after(federation, 1)
        if masks == "remade":
            assert not torch.equal(begun(second, 1), begun(second, 2))
        elif masks == "first":
            assert torch.equal(begun(second, 2), begun(first, 1))
        else:
            assert torch.equal(begun(second, 2), second.clients.factors.mu[0])
            assert not torch.equal(begun(second, 2), begun(first, 1))


def test_adaptation_moves_masks_alone_at_its_own_rate() -> None:
    fields = preset("lrbpfl", "paper", lr_mask=0.02, adapt_lr=0.005)
    method, work, _, batch = visit(fields)
    with torch.no_grad():
        adapted, trained = (v.phases[0].step(work, batch, torch.tensor(0)) for v in (method.adapt, method.train))
    assert_same(adapted.weights, work.weights, atol=0)
    for ours, theirs, before in zip(adapted.mask.factors, trained.mask.factors, work.mask.factors, strict=True):
        torch.testing.assert_close(4 * (ours - before), theirs - before, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "changes", "trained", "adapted"),
    [
        ("paper", {}, (20, 20), 20),
        ("paper", {"mask_steps": 5}, (5, 5), 5),
        ("one-w-step", {}, (20, 1), 20),
        ("joint", {}, (20,), 20),
        ("paper", {"w_steps": "interleaved", "mask_steps": 3}, (20,), 60),
        ("reference", {}, (15, 1), 40),
    ],
)
def test_steps_of_a_visit_and_before_a_test(
    name: str, changes: dict[str, Any], trained: tuple[int, ...], adapted: int
) -> None:
    method = load_method("lrbpfl", preset("lrbpfl", name, **changes), toy.network())

    def steps(phases: Any) -> tuple[int, ...]:
        return tuple((phase.feed(Feed(4, 20)) if phase.feed else Feed(4, 20)).amount for phase in phases)

    assert (steps(method.train.phases), steps(method.adapt.phases)) == (trained, (adapted,))


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("joint", {"mask_steps": 7}, "mask_steps does nothing"),
        ("fixed-rank", {"penalty": 0.1}, "penalty and threshold"),
    ],
)
def test_fields_that_would_do_nothing_are_refused(name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_method("lrbpfl", preset("lrbpfl", name, **changes), toy.network())


def test_predictions_are_an_ensemble_of_c_masks() -> None:
    method, work, _, batch = visit(preset("lrbpfl", "paper"))
    model = method.adapt.end(work)["pm"]
    found = method.predict(model, batch.x, torch.tensor(2))
    assert found.shape == (4, 4, 3) and float(found.std(0).max()) > 1e-3
    point = model._replace(factors=Gaussian(model.factors.mu, torch.full_like(model.factors.rho, -torch.inf)))
    assert float(method.predict(point, batch.x, torch.tensor(2)).std(0).max()) < 1e-12


def test_the_paper_s_network_has_the_paper_s_masks() -> None:
    # 3,917 channels in and out, twice (mean and rho) for each of 8 ranks: what Table 1's "1.27 M" adds to 1.22.
    sizes: dict[str, Any] = {"channels": (32, 64, 128), "padding": 1, "pooled": (True,) * 3, "hidden": (512, 256)}
    network = load_network("cnn", sizes, (3, 32, 32), 10)
    method = load_method("lrbpfl", preset("lrbpfl", "kept-masks"), network)
    facts = trees.take(toy.resident().facts(torch.arange(3), 0, Feed(4, 3)), 0)
    client = method.join(method.init(torch.tensor(0), 1), facts, torch.tensor(0))
    assert trees.numel(client.factors) == 62_672 == 2 * 8 * 3_917


def test_kaiming_weights_have_their_variance_and_no_bias() -> None:
    network = load_network("mlp", {"hidden": (400,)}, (1, 20, 20), 10)
    weights = load_method("lrbpfl", preset("lrbpfl", "reference"), network).init(torch.tensor(0), 1).weights
    assert not weights["hidden0.bias"].any()
    # 160,000 numbers of variance 2 / 400: its estimate is off by 1 % in one of 200 draws, and this is one draw.
    assert float(weights["hidden0.weight"].var()) == pytest.approx(2 / 400, rel=0.01)
