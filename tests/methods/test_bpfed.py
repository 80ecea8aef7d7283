"""BPFed: both readings against torch.optim and torch.distributions, FedPer at its end, a reading that never learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

import plain_loop
import toy
from agreement import assert_same, preset
from fedbayes.bayes.gaussian import Gaussian, inverse_softplus
from fedbayes.federation import trees
from fedbayes.federation.contract import Batch, Facts
from fedbayes.federation.loop import Federation, advance, start

BODY, HEAD = slice(0, 15), slice(15, 33)
OWN = ("head.weight", "head.bias")


class Bnn:
    """A Gaussian over the toy perceptron's 33 weights with an optimiser of its own."""

    def __init__(self, gaussian: Gaussian, fields: dict[str, Any]) -> None:
        self.mu, self.rho = (v.detach().clone().requires_grad_() for v in gaussian)
        self.make = torch.optim.Adam if fields["optimiser"] == "adam" else torch.optim.SGD
        self.lr = fields["lr"]
        self.forget()

    def forget(self) -> None:
        self.optimiser = self.make([self.mu, self.rho], lr=self.lr)

    @property
    def law(self) -> Normal:
        return Normal(self.mu, nn.functional.softplus(self.rho))

    def frozen(self) -> Normal:
        return Normal(self.mu.detach().clone(), nn.functional.softplus(self.rho.detach().clone()))

    def load(self, gaussian: Gaussian, places: slice) -> None:
        with torch.no_grad():
            self.mu[places], self.rho[places] = gaussian.mu, gaussian.rho

    def step(self, loss: Tensor) -> None:
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def part(self, places: slice) -> Gaussian:
        return Gaussian(self.mu[places].detach().clone(), self.rho[places].detach().clone())


def weights(vector: Tensor) -> dict[str, Tensor]:
    """The flat vector as the perceptron's weights."""
    shapes = {"hidden0.weight": (5, 2), "hidden0.bias": (5,), "head.weight": (3, 5), "head.bias": (3,)}
    parts = torch.split(vector, [10, 5, 15, 3])
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def plain(
    federation: Federation, fields: dict[str, Any], rounds: int
) -> tuple[Gaussian, list[Gaussian], list[Gaussian]]:
    """The shared Gaussian, the clients' heads and their q without noise, straight from the two descriptions."""
    server = start(federation).server
    whole = Gaussian(torch.cat([server.body.mu, server.head.mu]), torch.cat([server.body.rho, server.head.rho]))
    data = plain_loop.Data(federation)
    qs, bars = ([Bnn(whole, fields) for _ in data.clients()] for _ in range(2))
    body = server.body

    def divergence(first: Normal, second: Normal) -> Tensor:
        pair = (first, second) if fields["kl"] == "forward" else (second, first)
        return fields["kl_weight"] * kl_divergence(*pair).sum()

    for _ in range(rounds):
        for client in data.clients():
            q, bar = qs[client], bars[client]
            bar.load(body, BODY)
            if fields["optimiser_state"] == "fresh":
                q.forget(), bar.forget()
            if fields["personal_start"] == "broadcast":
                q.load(bar.part(slice(None)), slice(None))
            prior = bar.frozen()
            for _ in range(plain_loop.STEPS):
                x, y = data.next(client)
                scale = data.sizes[client] if fields["likelihood"] == "dataset" else 1
                for _ in range(fields["inner_steps"]):
                    held = bar.frozen() if fields["prior"] == "moving" else prior
                    q.step(scale * plain_loop.loss(weights(q.mu), x, y) + divergence(q.law, held))
                if fields["reading"] == "localized":
                    bar.step(divergence(q.frozen(), bar.law))
                else:
                    bar.load(q.part(slice(None)), slice(None))
                    bar.step(divergence(bar.law, prior))
                    q.load(bar.part(slice(None)), slice(None))
        parts = [bar.part(BODY) for bar in bars]
        share = [1 / 3] * 3 if fields["weighting"] == "uniform" else [size / sum(data.sizes) for size in data.sizes]

        def mean(values: list[Tensor]) -> Tensor:
            return sum(p * v for p, v in zip(share, values, strict=True))  # type: ignore[return-value] # noqa: B023

        if fields["average"] == "rho":
            body = Gaussian(mean([p.mu for p in parts]), mean([p.rho for p in parts]))
        else:
            body = Gaussian(mean([p.mu for p in parts]), inverse_softplus(mean([p.sigma for p in parts])))
    return body, [bar.part(HEAD) for bar in bars], [q.part(slice(None)) for q in qs]


# Gradient descent shows the formulas to the last digit. Adam makes full steps of rounding errors where a gradient is 0
# but for them (a dead unit's, or the KL's at the start of a round), and is compared where that does not happen.
@pytest.mark.parametrize(
    ("name", "changes", "optimiser"),
    [
        ("reference", {"kl_weight": 0.01}, "gd"),
        ("paper", {}, "gd"),
        ("paper", {"reading": "alternating"}, "gd"),
        ("paper", {"reading": "alternating"}, "adam"),
        ("paper", {"reading": "alternating", "kl": "reverse", "likelihood": "mean", "weighting": "samples"}, "adam"),
    ],
)
def test_three_rounds_against_torchs_optimisers_and_distributions(
    name: str, changes: dict[str, Any], optimiser: str
) -> None:
    fields = preset("bpfed", name, noise_std=0.0, optimiser=optimiser, lr=0.001, lr_copy=0.001) | changes
    federation = toy.federation("bpfed", fields)
    body, heads, qs = plain(federation, fields, 3)
    state = toy.after(federation, 3)
    atol = 1e-12 if optimiser == "gd" else 1e-4
    assert_same(state.server.body, body, atol=atol)
    for number, own in enumerate(heads):
        assert_same(Gaussian(*(v[number] for v in state.clients.head)), own, atol=atol)
    if fields["personal_start"] == "persistent":
        for number, own in enumerate(qs):
            assert_same(Gaussian(*(v[number] for v in state.clients.personal)), own, atol=atol)


@pytest.mark.parametrize(
    ("turns", "moving"), [("together", (plain_loop.BODY + OWN,)), ("head-then-body", (OWN, plain_loop.BODY))]
)
def test_silent_it_is_fedper_and_in_turns_fedrep(turns: str, moving: tuple[tuple[str, ...], ...]) -> None:
    fields = preset(
        "bpfed", "paper", noise_std=0.0, kl_weight=0.0, likelihood="mean", reading="alternating", optimiser="gd",
        lr=0.1, weighting="samples", turns=turns,
    )  # fmt: skip
    federation = toy.federation("bpfed", fields)
    server = start(federation).server
    whole = weights(torch.cat([server.body.mu, server.head.mu]))
    _, clients = plain_loop.partly_shared(
        federation, whole, 3, plain_loop.BODY,
        lambda data, client, own: [own.step(data.next(client), names) for names in moving for _ in range(3)],  # type: ignore[arg-type, return-value]
        lambda ws: torch.optim.SGD(ws, lr=0.1),
    )  # fmt: skip
    state = toy.after(federation, 3)
    for number, own in enumerate(clients):
        expected = torch.cat([own["head.weight"].flatten(), own["head.bias"]])
        torch.testing.assert_close(state.clients.head.mu[number], expected, rtol=0, atol=1e-11)
    torch.testing.assert_close(state.clients.head.rho[0], server.head.rho, rtol=0, atol=0)


@pytest.mark.parametrize("reading", ["localized", "alternating"])
def test_what_has_no_turn_stays_where_it_is(reading: str) -> None:
    # Adam moves by its moments even where a gradient is 0.
    federation = toy.federation("bpfed", preset("bpfed", "paper", reading=reading, turns="head-then-body"))
    state, method, data = start(federation), federation.method, federation.data
    facts = Facts(*(v[0] for v in data.facts(torch.arange(3), 0, federation.feed)))
    client = trees.take(state.clients, 0)
    work = method.train.begin(method.send(state.server, facts.id), client, facts, torch.tensor(0))
    batch = Batch(data.inputs[:4], data.labels[:4], torch.ones(4, dtype=torch.float64))
    for phase, still, moved in zip(method.train.phases, (BODY, HEAD), (HEAD, BODY), strict=True):
        before = work
        with torch.no_grad():
            for t in range(3):
                work = phase.step(work, batch, torch.tensor(t))
        for old, new in ((before.q, work.q), (before.bar, work.bar)):
            for a, b in zip(old, new, strict=True):
                assert torch.equal(a[still], b[still]) and bool((a[moved] != b[moved]).any())


@pytest.mark.parametrize("reading", ["localized", "alternating"])
def test_neither_reading_uploads_what_was_broadcast(reading: str) -> None:
    # The natural third reading has gradient 0: started at the prior and stepped on KL(bar || prior) alone.
    federation = toy.federation("bpfed", preset("bpfed", "paper", reading=reading, noise_std=0.0))
    before = start(federation)
    after, _ = advance(federation, before)
    assert float((after.server.body.mu - before.server.body.mu).abs().max()) > 1e-4


def test_only_the_body_travels_and_only_the_head_is_kept() -> None:
    federation = toy.federation("bpfed", preset("bpfed", "paper"))
    state, report = advance(federation, start(federation))
    assert (report.floats_down, report.floats_up) == (2 * 15, 2 * 15)
    assert state.clients.head.mu.shape == (3, 18) and state.clients.personal == () and federation.method.common is None


def test_a_fixed_prior_is_another_method() -> None:
    continual, fixed = (
        toy.after(toy.federation("bpfed", preset("bpfed", "paper", prior=p, noise_std=0.0)), 2)
        for p in ("round", "fixed")
    )
    assert not torch.allclose(continual.server.body.mu, fixed.server.body.mu)
    # Without noise the data do not look at sigma, which goes to the prior's 0.1, wherever it began.
    fields = preset("bpfed", "paper", prior="fixed", reading="alternating", optimiser="gd", lr=0.003, lr_copy=0.003)
    federation = toy.federation("bpfed", fields | {"likelihood": "mean", "kl_weight": 1.0, "noise_std": 0.0})
    state = toy.after(federation, 150)
    assert float(state.server.body.sigma.mean()) == pytest.approx(0.1, rel=0.05)
