"""FedPop: its chain on a Gaussian target, the server's steps by autograd, the code's order by torch.optim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import plain_loop
import toy
from agreement import assert_same, preset
from fedbayes.bayes.gaussian import inverse_softplus, softplus
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Batch, Facts, Feed
from fedbayes.federation.loop import advance, choose, start
from fedbayes.methods import load_method
from fedbayes.methods.fedpop import Client, Prior, Trail, effective_samples, noted, prior_slope
from fedbayes.models.network import Network

HEAD = ("head.weight", "head.bias")


def regression(noise_variance: float) -> Network:
    """A fixed body and a linear head without a bias; the loss is a Gaussian's negative log-density up to a constant."""

    def apply(layer: Any, x: Tensor) -> Tensor:
        found: Tensor = layer("head", F.linear, layer("body", F.linear, x))
        return found

    return Network(
        lambda stream: {"body.weight": torch.eye(2).double(), "head.weight": torch.zeros(1, 2, dtype=torch.float64)},
        apply,
        ("body", "head"),
        "dense",
        lambda outputs, y: (outputs.squeeze(-1) - y) ** 2 / (2 * noise_variance),
    )


def test_the_chain_has_the_stationary_moments_of_langevin_steps_on_a_gaussian() -> None:
    # Orthogonal inputs: the posterior is a product of Gaussians with precisions p. A chain of steps gamma has its mean
    # and the variance 1 / (p (1 - gamma p / 2)), which is the exact law of the discretised chain.
    torch.manual_seed(0)
    x = torch.linalg.qr(torch.randn(12, 2, dtype=torch.float64)).Q * torch.tensor([2.0, 5.0], dtype=torch.float64)
    y = x @ torch.tensor([0.7, -0.4], dtype=torch.float64)
    gamma, noise_variance, prior_std, steps = 0.02, 0.5, 0.8, 40_000
    fields = preset("fedpop", "paper", step_size=gamma, prior="fixed", prior_std=prior_std, lr=0.0)
    method = load_method("fedpop", fields, regression(noise_variance))
    one = torch.tensor(1)
    facts = Facts(one * 0, one * 12, one[None] * 12, one * 0, one * 12, one)
    server = method.init(torch.tensor(0), 1)
    down = method.send(server, one)
    work = method.train.begin(down, method.join(server, facts, one), facts, one)
    batch, chain = Batch(x, y, torch.ones(12, dtype=torch.float64)), []
    with torch.no_grad():
        for t in range(steps):
            work = method.train.phases[1].step(work, batch, torch.tensor(t))
            chain.append(work.heads[-1])
    found = torch.stack(chain[1000:])
    precision = (x**2).sum(0) / noise_variance + prior_std**-2
    mean = (x * y[:, None]).sum(0) / noise_variance / precision
    variance = 1 / (precision * (1 - gamma * precision / 2))
    # An autoregression with coefficient 1 - gamma p: its mean counts n (1 - r) / (1 + r) samples, its squares r^2.
    r = (1 - gamma * precision).abs()
    error = (variance * (1 + r) / (1 - r) / len(found)).sqrt()
    assert bool(((found.mean(0) - mean).abs() <= 4 * error).all())
    relative = (2 * (1 + r**2) / (1 - r**2) / len(found)).sqrt()
    assert bool(((found.var(0) - variance).abs() <= 4 * relative * variance).all())
    # What a visit reports of it: the first coordinate's r is 0.809, the second's alternates and counts as 0.
    kept, expected = float(effective_samples(work.chain)), len(chain) * (((1 - 0.80875) / (1 + 0.80875)) + 1) / 2
    assert float(1 - gamma * precision[0]) == pytest.approx(0.80875) and float(1 - gamma * precision[1]) < 0
    assert kept == pytest.approx(expected, rel=0.05)


def test_effective_samples_of_a_chain_that_stands_still_and_of_independent_draws() -> None:
    nothing = torch.zeros(3, dtype=torch.float64)
    still = independent = Trail(torch.tensor(0), *[nothing] * 5)
    draws = torch.randn(4000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for draw in draws:
        still, independent = noted(still, nothing + 2), noted(independent, draw)
    assert float(effective_samples(still)) == 0
    # r of n independent draws is 0 give or take 1 / sqrt(n).
    assert float(effective_samples(independent)) == pytest.approx(4000, rel=0.1)


def test_the_prior_s_gradient_by_autograd() -> None:
    mu = torch.randn(3, dtype=torch.float64).requires_grad_()
    rho = torch.tensor([0.3], dtype=torch.float64).requires_grad_()
    heads, nothing = torch.randn(4, 3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    trail = Trail(torch.tensor(0), *[nothing] * 5)
    for head in heads:
        trail = noted(trail, head)
    loss = -torch.distributions.Normal(mu, F.softplus(rho)).log_prob(heads).sum(1).mean()
    expected = torch.autograd.grad(loss, [mu, rho])
    assert_same(prior_slope(Prior(mu.detach(), rho.detach()), trail), expected)


def test_with_still_heads_the_body_descends_on_the_sum_of_all_losses() -> None:
    fields = preset("fedpop", "paper", step_size=0.0, steps=1, burn_in=0, prior_weight=0.0, prior="fixed", lr=0.01)
    federation = toy.federation("fedpop", fields)
    server, data = start(federation).server, federation.data
    head = dict(zip(HEAD, (server.head[:15].view(3, 5), server.head[15:]), strict=True))
    body = dict(server.body)
    for _ in range(3):
        slopes = []
        for client, size in enumerate(data.train.sizes.tolist()):
            rows = data.train.rows[client, :size]
            found = plain_loop.grad(body | head, data.inputs[rows], data.labels[rows])
            slopes.append({n: size * found[n] for n in body})
        body = {n: w - 0.01 * sum(s[n] for s in slopes) for n, w in body.items()}
    assert_same(toy.after(federation, 3).server.body, body)


def test_half_of_the_clients_stand_for_all_of_them() -> None:
    # N / S: with one client of three a round its gradient counts three times.
    fields = preset("fedpop", "paper", step_size=0.0, steps=1, burn_in=0, prior_weight=0.0, prior="fixed", lr=0.01)
    federation = toy.federation("fedpop", fields, clients_per_round=1)
    server, data, client = start(federation).server, federation.data, int(choose(federation, 0)[0])
    head = dict(zip(HEAD, (server.head[:15].view(3, 5), server.head[15:]), strict=True))
    size = int(data.train.sizes[client])
    rows = data.train.rows[client, :size]
    slope = plain_loop.grad(server.body | head, data.inputs[rows], data.labels[rows])
    expected = {n: w - 0.01 * 3 * size * slope[n] for n, w in server.body.items()}
    assert_same(toy.after(federation, 1).server.body, expected)


def test_a_learned_prior_follows_the_heads() -> None:
    fields = preset("fedpop", "paper", step_size=1e-4, lr=0.0, lr_prior=0.02)
    federation = toy.federation("fedpop", fields)
    state = toy.after(federation, 400)
    heads = state.clients.heads.flatten(0, 1)
    gap = (state.server.prior.mu - heads.mean(0)).abs().mean()
    assert float(gap) < 0.25 * float(heads.abs().mean()) and float(softplus(state.server.prior.rho)) < 1.0
    fixed = toy.after(toy.federation("fedpop", fields | {"prior": "fixed"}), 3)
    assert float(fixed.server.prior.mu.abs().max()) == 0 and float(softplus(fixed.server.prior.rho)) == pytest.approx(1)


def test_one_client_a_round_is_the_code_s_order() -> None:
    # Client after client: Adam on the head, RMSprop on the one body, whose state goes on.
    fields = preset("fedpop", "reference", step_size=0.02, lr=0.01)
    federation = toy.federation("fedpop", fields, clients_per_round=1)
    server, data = start(federation).server, federation.data
    body = {n: w.clone().requires_grad_() for n, w in server.body.items()}
    on_body = torch.optim.RMSprop(body.values(), lr=0.01)
    heads = {c: server.head.clone().requires_grad_() for c in range(3)}
    for round_ in range(6):
        client = int(choose(federation, round_)[0])
        z, size = heads[client], int(data.train.sizes[client])
        rows, on_head = data.train.rows[client, :size], torch.optim.Adam([z], lr=0.02)
        for step in range(10):
            for optimiser in (on_body, on_head):
                optimiser.zero_grad()
            weights = body | {"head.weight": z[:15].view(3, 5), "head.bias": z[15:]}
            loss = size * plain_loop.loss(weights, data.inputs[rows], data.labels[rows]) + 0.5 * z.square().sum()
            loss.backward()
            on_head.step()
            if step >= 5:
                on_body.step()
    state = toy.after(federation, 6)
    assert_same(state.server.body, {n: w.detach() for n, w in body.items()}, atol=1e-9)
    assert_same(state.clients.heads[:, 0], torch.stack([heads[c].detach() for c in range(3)]), atol=1e-9)


@pytest.mark.parametrize("prior", ["previous", "fixed"])
def test_bpfed_s_variant_against_distributions(prior: str) -> None:
    fields = preset("fedpop", "bpfed", steps=2, inner_steps=2, prior_weight=0.01, noise_std=1.0, prior=prior)
    federation = toy.federation("fedpop", fields, sizes=(4,), feed=Feed(4, 2))
    server, data = start(federation).server, federation.data
    method = federation.method
    # The same two batches of two steps by hand, with the noise that the method's own keys give.
    facts = data.facts(torch.arange(1), 0, federation.feed)
    facts = Facts(*(v[0] for v in facts))
    client = method.join(server, facts, torch.tensor(0))
    work = method.train.begin(method.send(server, facts.id), client, facts, torch.tensor(0))
    body = {n: w.clone().requires_grad_() for n, w in server.body.items()}
    mu, rho = server.head.clone().requires_grad_(), torch.full_like(server.head, -3.0).requires_grad_()
    adam = [torch.optim.Adam(body.values(), lr=0.001), torch.optim.Adam([mu, rho], lr=0.001)]
    batch = Batch(data.inputs[:4], data.labels[:4], torch.ones(4, dtype=torch.float64))
    for t in range(2):
        key = torch.tensor(50 + t)
        with torch.no_grad():
            work = method.train.phases[0].step(work, batch, key)
        before = torch.distributions.Normal(mu.detach().clone(), F.softplus(rho).detach())
        for inner in range(2):
            noise = rng.normal(rng.fold(rng.fold(key, inner), 0), 18, torch.float64)
            z = mu + F.softplus(rho) * noise
            weights = body | {"head.weight": z[:15].view(3, 5), "head.bias": z[15:]}
            law, standard = torch.distributions.Normal(mu, F.softplus(rho)), torch.distributions.Normal(0.0, 1.0)
            pair = (before, law) if prior == "previous" else (law, standard)
            loss = plain_loop.loss(weights, batch.x, batch.y)
            loss = loss + 0.01 * torch.distributions.kl_divergence(*pair).sum()
            for optimiser in adam:
                optimiser.zero_grad()
            loss.backward()
            for optimiser in adam:
                optimiser.step()
    # Steps are 1e-3 long; where a gradient is nearly 0 Adam makes more of its last digit.
    assert_same(work.heads, torch.stack([mu.detach(), rho.detach()]), atol=1e-6)
    assert_same(work.body, {n: w.detach() for n, w in body.items()}, atol=1e-9)


def test_in_bpfed_s_code_a_client_learns_from_nobody() -> None:
    # The first client's own samples stay; the others' labels change. Its network hears of that by the broadcast alone.
    def first_of(name: str, labels: Tensor) -> Any:
        federation = toy.federation("fedpop", preset("fedpop", name, steps=3, inner_steps=2))
        data = federation.data
        rows = data.train.rows[0, : int(data.train.sizes[0])]
        changed = data.labels.clone()
        changed[:] = labels
        changed[rows] = data.labels[rows]
        return trees.take(toy.after(replace(federation, data=replace(data, labels=changed)), 3).clients, 0)

    one, other = (torch.tensor(label) for label in (0, 1))
    assert_same(first_of("bpfed", one), first_of("bpfed", other), atol=0)
    assert not torch.equal(first_of("mended", one).heads, first_of("mended", other).heads)


def test_a_visit_reports_step_size_and_keeps_its_last_heads() -> None:
    federation = toy.federation("fedpop", preset("fedpop", "paper", step_size=0.001, heads=3))
    state, report = advance(federation, start(federation))
    assert report.info["step_size"].tolist() == [0.001] * 3
    assert state.clients.heads.shape == (3, 3, 18)
    gaps = (state.clients.heads[:, 1:] - state.clients.heads[:, :-1]).abs().amax((1, 2))
    assert bool((gaps > 0).all()), "three different heads"
    assert federation.method.common is None


def test_effective_samples_are_those_of_the_whole_chain() -> None:
    # 300 heads behind the burn-in. Tiny steps are a random walk, worth a handful of samples whatever its length; large
    # ones forget quickly.
    for step_size, least, most in ((1e-9, 0.0, 15.0), (0.8, 100.0, 300.0)):
        fields = preset("fedpop", "paper", step_size=step_size, lr=0.0, prior="fixed", likelihood="mean")
        federation = toy.federation("fedpop", fields)
        state = toy.after(federation, 59)
        found = advance(federation, state)[1].info["effective_samples"]
        assert bool((found > least).all()) and bool((found < most).all()), (step_size, found)


@pytest.mark.parametrize("name", ["paper", "reference", "bpfed", "mended"])
def test_a_newcomer_leaves_the_body_alone(name: str) -> None:
    federation = toy.federation("fedpop", preset("fedpop", name))
    state, method = start(federation), federation.method
    facts = Facts(*(v[0] for v in federation.data.facts(torch.arange(3), 0, federation.feed)))
    client = Client(*(trees.take(state.clients, 0)))
    work = method.newcomer.begin(method.send(state.server, facts.id), client, facts, torch.tensor(0))
    batch = Batch(federation.data.inputs[:4], federation.data.labels[:4], torch.ones(4, dtype=torch.float64))
    with torch.no_grad():
        for phase in method.newcomer.phases:
            work = phase.step(work, batch, torch.tensor(3))
    assert_same(method.newcomer.end(work)["pm"][0], state.server.body, atol=0)
    assert not torch.equal(work.heads, client.heads) and method.freezes_shared


def test_newcomers_do_not_lengthen_the_server_s_steps() -> None:
    fields = preset("fedpop", "paper", step_size=0.0, steps=1, burn_in=0, prior_weight=0.0, prior="fixed", lr=0.01)
    federation = replace(toy.federation("fedpop", fields, clients_per_round=2), newcomers=(2,))
    two = toy.federation("fedpop", fields, sizes=toy.SIZES[:2])
    # The same two clients, with and without a third that never trains.
    two = replace(two, data=replace(two.data, inputs=federation.data.inputs, labels=federation.data.labels))
    rows = federation.data.train
    two = replace(two, data=replace(two.data, train=type(rows)(rows.rows[:2], rows.sizes[:2])))
    assert_same(toy.after(federation, 1).server.body, toy.after(two, 1).server.body)


def test_five_inner_steps_are_five_steps_on_one_batch() -> None:
    setting: dict[str, Any] = {"sizes": (4,), "feed": Feed(4, 1)}
    one, five = (
        toy.federation(
            "fedpop", preset("fedpop", "mended", prior="fixed", steps=m, inner_steps=k, noise_std=0.0), **setting
        )
        for m, k in ((5, 1), (1, 5))
    )
    assert_same(toy.after(one, 1).server.body, toy.after(five, 1).server.body)
    assert advance(five, start(five))[1].gradients == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"burn_in": 10}, "expected less than the 10 steps"),
        ({"personal": "mean-field"}, "goes with `shared: local`"),
        ({"shared": "local"}, "needs a server that steps it"),
        ({"shared_optimiser": "rmsprop"}, "takes plain steps"),
        ({"personal": "adam"}, "has no noise"),
        ({"prior": "previous"}, "is a Gaussian head"),
        ({"body_start": "persistent"}, "a body that clients step and keep"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_method("fedpop", preset("fedpop", "paper", **changes), toy.network())


def test_the_prior_s_start_is_what_the_preset_says() -> None:
    server = start(toy.federation("fedpop", preset("fedpop", "paper", prior_std=0.4))).server
    torch.testing.assert_close(server.prior.rho, inverse_softplus(torch.tensor([0.4], dtype=torch.float64)))
