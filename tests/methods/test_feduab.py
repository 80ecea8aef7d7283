"""FedUAB: its limits, an exact posterior, its initial values, and a visit against torch.distributions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import toy
from agreement import assert_same, preset
from fedbayes.bayes.gaussian import inverse_softplus
from fedbayes.evaluation.evaluate import predict_all
from fedbayes.federation.contract import Batch, Facts, Feed
from fedbayes.federation.loop import advance, start
from fedbayes.methods.feduab import Config, Posterior, build, initial
from fedbayes.models import load_network
from fedbayes.models.network import Network
from fedbayes.reading import ConfigError

SILENT: dict[str, Any] = {"lr": 0.1, "noise_bound": 0.0, "kl_weight": 0.0, "variance_reduction": 1.0}


@pytest.mark.parametrize("aggregation", ["conflation", "rho", "sigma", "moments", "independents"])
def test_silent_it_is_fedavg(aggregation: str) -> None:
    # Without noise and KL no gradient reaches rho, so all variances stay equal and every rule averages the means.
    fields = preset("feduab", "paper", **SILENT, draws=1, aggregation=aggregation)
    state = toy.after(toy.federation("feduab", fields), 1)
    assert_same(state.server.world.mu, toy.after(toy.federation(), 1).server.weights)
    if aggregation in ("conflation", "rho", "sigma"):
        state = toy.after(toy.federation("feduab", fields), 3)
        assert_same(state.server.world.mu, toy.after(toy.federation(), 3).server.weights)


def test_several_silent_draws_are_one() -> None:
    one, three = (toy.after(toy.federation("feduab", preset("feduab", "paper", **SILENT, draws=z)), 3) for z in (1, 3))
    assert_same(one.server, three.server)


def test_silent_with_a_private_head_it_is_fedper() -> None:
    fields = preset("feduab", "own-bpfed", **(SILENT | {"draws": 1}))
    ours = toy.after(toy.federation("feduab", fields), 3)
    theirs = toy.after(toy.federation("fedper", preset("fedper", "paper", private_start="common", lr=0.1)), 3)
    assert_same(ours.server.world.mu, theirs.server.shared)
    assert_same(ours.clients.own.mu, theirs.clients.own)


def regression(noise_variance: float) -> Network:
    """Linear regression without a bias: the loss is a Gaussian's negative log-density, but for a constant."""

    def apply(layer: Any, x: Tensor) -> Tensor:
        found: Tensor = layer("head", torch.nn.functional.linear, x)
        return found

    return Network(
        lambda stream: {"head.weight": torch.zeros(1, 3, dtype=torch.float64)},
        apply,
        ("head",),
        "dense",
        lambda outputs, y: (outputs.squeeze(-1) - y) ** 2 / (2 * noise_variance),
    )


def test_bayes_by_backprop_finds_the_exact_posterior_of_conjugate_regression() -> None:
    # Orthogonal inputs: the exact posterior is diagonal, so a mean-field Gaussian can be it. With the whole data in a
    # batch, mean loss + KL / n has its minimum there.
    stream = torch.Generator().manual_seed(0)
    samples, noise_variance, prior_sigma = 24, 0.5, 0.7
    basis = torch.linalg.qr(torch.randn(samples, 3, generator=stream, dtype=torch.float64)).Q
    x = basis * torch.tensor([2.0, 4.0, 6.0], dtype=torch.float64)
    y = x @ torch.tensor([0.5, -1.0, 0.3], dtype=torch.float64) + noise_variance**0.5 * torch.randn(
        samples, generator=stream, dtype=torch.float64
    )
    fields = preset(
        "feduab", "paper", lr=0.05, draws=8, kl_weight=1 / samples, prior="zero-mean", initial_sigma=prior_sigma,
        variance_reduction=1.0,
    )  # fmt: skip
    method = build(Config.model_validate(fields), regression(noise_variance))
    one = torch.tensor(1)
    facts = Facts(one * 0, one * samples, one[None] * samples, one * 0, one * samples, one)
    server = method.init(torch.tensor(0), 1)
    work = method.train.begin(server.world, method.join(server, facts, one), facts, one)
    batch, trail = Batch(x, y, torch.ones(samples, dtype=torch.float64)), []
    with torch.no_grad():
        for t in range(6000):
            work = method.train.phases[0].step(work, batch, torch.tensor(t))
            if t >= 3000:
                trail.append((work.q.mu["head.weight"].flatten(), work.q.sigma["head.weight"].flatten()))
    precision = (x**2).sum(0) / noise_variance + prior_sigma**-2
    mean = (x * y[:, None]).sum(0) / noise_variance / precision
    mu, sigma = (torch.stack(part).mean(0) for part in zip(*trail, strict=True))
    torch.testing.assert_close(mu, mean, rtol=0, atol=0.01)
    torch.testing.assert_close(sigma, precision**-0.5, rtol=0.03, atol=0)


def test_a_step_against_torch_distributions() -> None:
    fields = preset("feduab", "paper", lr=0.1, draws=1, kl_weight=0.3, noise_bound=0.0)
    federation = toy.federation("feduab", fields, sizes=(4,), feed=Feed(4, 2))
    world = start(federation).server.world
    q = {part: {n: v.clone().requires_grad_() for n, v in getattr(world, part).items()} for part in ("mu", "rho")}
    x, y = federation.data.inputs[:4].flatten(1), federation.data.labels[:4]
    for _ in range(2):
        hidden = torch.relu(x @ q["mu"]["hidden0.weight"].T + q["mu"]["hidden0.bias"])
        loss = torch.nn.functional.cross_entropy(hidden @ q["mu"]["head.weight"].T + q["mu"]["head.bias"], y)
        for n in world.mu:
            ours = torch.distributions.Normal(q["mu"][n], torch.nn.functional.softplus(q["rho"][n]))
            prior = torch.distributions.Normal(world.mu[n], torch.nn.functional.softplus(world.rho[n]))
            loss = loss + 0.3 * torch.distributions.kl_divergence(ours, prior).sum()
        leaves = [v for part in q.values() for v in part.values()]
        grads = iter(torch.autograd.grad(loss, leaves, allow_unused=True))
        q = {
            part: {
                n: (v - 0.1 * g if (g := next(grads)) is not None else v).detach().requires_grad_()
                for n, v in own.items()
            }
            for part, own in q.items()
        }
    found = toy.after(federation, 1).server.world
    assert_same(found, Posterior(q["mu"], q["rho"]), atol=1e-10)


def test_initial_values_by_level() -> None:
    network = load_network("textcnn", {"vocabulary": 9, "vector": 4, "widths": (2, 3), "channels": 2}, (6,), 2)
    fields = preset("feduab", "reference", mean_bounds=[0.5, 0.3, 0.1])
    q = initial(Config.model_validate(fields), network, torch.Generator().manual_seed(0))
    for level, layers in enumerate((["embedding"], ["conv2", "conv3"], ["head"])):
        for layer in layers:
            variance = q.sigma[f"{layer}.weight"].square()
            torch.testing.assert_close(variance, torch.full_like(variance, 0.01 / 2**level))
            assert float(q.mu[f"{layer}.weight"].abs().max()) <= (0.5, 0.3, 0.1)[level]
    assert q.mu["head.bias"].tolist() == pytest.approx([0.01, 0.01])
    with pytest.raises(ConfigError, match="mean_bounds: found 2 values; the network has 3 levels"):
        initial(Config.model_validate(fields | {"mean_bounds": [0.5, 0.3]}), network, torch.Generator())


def test_a_round_reports_the_mean_sigma_of_each_layer() -> None:
    federation = toy.federation("feduab", preset("feduab", "paper"))
    _, report = advance(federation, start(federation))
    assert {"sigma/hidden0", "sigma/head"} <= report.info.keys()
    # H = 2: the head begins with a standard deviation smaller by the square root of two.
    ratio = report.info["sigma/hidden0"] / report.info["sigma/head"]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 2**0.5), rtol=0.05, atol=0)


@pytest.mark.parametrize("prediction", ["local", "weights"])
def test_predictions_scatter_by_sigma_and_not_without_it(prediction: str) -> None:
    federation = toy.federation("feduab", preset("feduab", "paper", prediction=prediction))
    world = start(federation).server.world
    x = federation.data.inputs[:6]
    found = federation.method.predict(world, x, torch.tensor(3))
    assert found.shape == (5, 6, 3) and float(found.std(0).min()) > 0
    point = Posterior(world.mu, {n: inverse_softplus(torch.full_like(r, 1e-7)) for n, r in world.rho.items()})
    assert float(federation.method.predict(point, x, torch.tensor(3)).std(0).max()) < 1e-5


def test_the_private_head_has_no_global_model() -> None:
    federation = toy.federation("feduab", preset("feduab", "own-bpfed"))
    assert federation.method.common is None
    assert set(predict_all(federation, start(federation))) == {"pm"}
