"""PFedBayes against a plain one-client loop, closed forms and its limit cases, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import yaml

import plain_pfedbayes
import toy
from artefacts import ROOT
from fedbayes.bayes.aggregation import aggregate as average
from fedbayes.bayes.flat import flatten, layout_of, unflatten
from fedbayes.bayes.gaussian import Gaussian, inverse_softplus, kl, slope, softplus
from fedbayes.evaluation.evaluate import predict_all
from fedbayes.federation.contract import Batch
from fedbayes.federation.loop import advance, start
from fedbayes.parts.drawn_weights import likelihood_gradient
from plain_fedavg import fedavg

PRESETS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "config/methods/pfedbayes.yaml").read_text())["presets"]


def changed(preset: str, **fields: Any) -> dict[str, Any]:
    return PRESETS[preset] | fields


@pytest.mark.parametrize("lift", ["vmap", "loop"])
@pytest.mark.parametrize(
    "config",
    [
        PRESETS["paper"],
        PRESETS["reference"],
        PRESETS["bpfed"],
        changed("bpfed", noise_std=1.0, prior="round", draws=2),
        changed("paper", draws=3, prior="round"),
        changed("reference", noise_std=1.0, optimiser="gd", personal_start="broadcast"),
    ],
)
def test_three_rounds_equal_the_plain_loop(config: dict[str, Any], lift: Any) -> None:
    federation = toy.federation("pfedbayes", config, lift=lift)
    begun = start(federation)
    state = toy.after(federation, 3)
    world, clients = plain_pfedbayes.run(federation, *begun.server.world, config, rounds=3, batch=4, steps=3)
    for found, expected in zip(state.server.world, world, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    for i, client in enumerate(clients):
        for found, expected in zip(state.clients.personal, client.personal, strict=True):
            torch.testing.assert_close(found[i], expected.detach(), rtol=0, atol=1e-9)


def test_the_mean_likelihood_is_the_sum_with_its_weight_moved_to_the_kl() -> None:
    """Gradient descent: the mean over a batch of b is the sum at 1 / b of the step size, with b times the KL weight."""
    mean = changed("bpfed", optimiser="gd", global_kl="weighted")
    total = mean | {"likelihood": "batch", "lr_personal": mean["lr_personal"] / 4, "kl_divisor": mean["kl_divisor"] / 4}
    total |= {"lr_global": mean["lr_global"] / 4}
    a, b = (toy.after(toy.federation("pfedbayes", config, sizes=(8, 12)), 2) for config in (mean, total))
    for found, expected in zip(a.clients.personal, b.clients.personal, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_the_preset_lrbpfl_is_the_loss_of_lr_bpfls_code() -> None:
    """Its loss divides the batch's sum by the classes and the KL by the samples, at a step size of 0.001."""
    n, classes = 8, toy.CLASSES
    own = changed("lrbpfl", lr_personal=0.001 / classes, lr_global=0.001 / classes, kl_divisor=n / classes)
    federation = toy.federation("pfedbayes", own, sizes=(n, n))
    code = own | {"lr_personal": 0.001, "lr_global": 0.001, "kl_divisor": float(n), "likelihood": "classes"}
    world, clients = plain_pfedbayes.run(federation, *start(federation).server.world, code, rounds=2, batch=4, steps=3)
    state = toy.after(federation, 2)
    for found, expected in zip(state.server.world, world, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    for found, expected in zip(state.clients.personal, clients[1].personal, strict=True):
        torch.testing.assert_close(found[1], expected.detach(), rtol=0, atol=1e-10)
    # The preset itself: ten classes and 120 samples.
    preset = PRESETS["lrbpfl"]
    assert (preset["lr_personal"], preset["lr_global"], preset["kl_divisor"]) == (0.001 / 10, 0.001 / 10, 120 / 10)


def test_without_noise_and_kl_it_is_local_training_of_the_means() -> None:
    """Noise 0 and zeta 0: the likelihood alone moves mu, rho stays, and q is plain gradient descent."""
    config = changed("reference", noise_std=0.0, zeta=0.0, inner_steps=1, optimiser="gd", lr_personal=0.05)
    federation = toy.federation("pfedbayes", config, sizes=(8,))
    begun = start(federation)
    state = toy.after(federation, 2)
    layout = layout_of(toy.network().init(torch.Generator().manual_seed(0)))
    # The sum over a batch of 4 with rate 0.05 is the mean with rate 0.2.
    expected = fedavg(federation, unflatten(begun.server.world.mu, layout), 2, batch=4, steps=3, lr=0.2, momentum=0.0)
    torch.testing.assert_close(state.clients.personal.mu[0], flatten(expected), rtol=0, atol=1e-10)
    assert torch.equal(state.clients.personal.rho[0], begun.server.world.rho)
    assert torch.equal(state.server.world.mu, begun.server.world.mu), "with a KL weight of 0 the server learns nothing"


def test_nobody_moves_without_a_personal_step_size() -> None:
    """lr_personal 0 and a start from the broadcast: q equals w, both gradients of the KL vanish."""
    config = changed("paper", lr_personal=0.0, personal_start="broadcast", optimiser="gd")
    federation = toy.federation("pfedbayes", config)
    begun = start(federation)
    for found, expected in zip(toy.after(federation, 2).server.world, begun.server.world, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_the_likelihoods_gradient_equals_automatic_differentiation() -> None:
    network = toy.network()
    weights = network.init(torch.Generator().manual_seed(1))
    layout, stream = layout_of(weights), torch.Generator().manual_seed(2)
    mu, rho = flatten(weights), torch.randn(layout.size, generator=stream, dtype=torch.float64)
    noise = torch.randn(2, layout.size, generator=stream, dtype=torch.float64)
    batch = Batch(torch.randn(4, 1, 1, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0]),
                  torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64))  # fmt: skip
    moving = [mu.clone().requires_grad_(), rho.clone().requires_grad_()]
    nll = sum(
        torch.nn.functional.cross_entropy(
            plain_pfedbayes.logits(moving[0] + torch.nn.functional.softplus(moving[1]) * g, batch.x[:3]),
            batch.y[:3],
            reduction="sum",
        )
        for g in noise
    )
    expected = torch.autograd.grad(nll / 2, moving)
    found, value = likelihood_gradient(mu + softplus(rho) * noise, noise, network, layout, batch)
    assert float(value) == pytest.approx(float(nll.detach()) / 2)
    for a, b in zip((found.mu, found.sigma * slope(rho)), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def two() -> Gaussian:
    return Gaussian(torch.tensor([[0.0], [2.0]]).double(), inverse_softplus(torch.tensor([[1.0], [3.0]]).double()))


def test_averages_by_hand() -> None:
    half = torch.tensor([0.5, 0.5]).double()
    assert float(average(two(), half, "sigma").sigma) == pytest.approx(2.0)
    # Lemma A.2: (1 + 9) / 2 plus the means' variance 1.
    assert float(average(two(), half, "moments").sigma) == pytest.approx(6.0**0.5)
    assert float(average(two(), half, "rho").rho) == pytest.approx(float(two().rho.mean()))
    for space in ("rho", "sigma", "moments"):
        assert float(average(two(), half, space).mu) == 1.0


@pytest.mark.parametrize("space", ["rho", "sigma", "moments"])
def test_equal_messages_are_not_changed(space: str) -> None:
    one = Gaussian(torch.tensor([[0.3, -1.0]] * 3).double(), torch.tensor([[-2.0, 0.5]] * 3).double())
    for found, expected in zip(
        average(one, torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64), space), one, strict=True
    ):
        torch.testing.assert_close(found, expected[0], rtol=0, atol=1e-12)


def test_matched_moments_minimise_the_mean_kl() -> None:
    """Lemma A.2: no neighbour of the matched Gaussian is nearer to the clients' on average."""
    both, half = two(), torch.tensor([0.5, 0.5]).double()
    best = average(both, half, "moments")

    def objective(p: Gaussian) -> float:
        return float(sum(kl(Gaussian(both.mu[i], both.rho[i]), p) for i in range(2)))

    for step in (0.01, -0.01):
        assert objective(best) < objective(Gaussian(best.mu + step, best.rho))
        assert objective(best) < objective(Gaussian(best.mu, best.rho + step))


def test_twice_the_weights_travel() -> None:
    federation = toy.federation("pfedbayes", PRESETS["reference"])
    _, report = advance(federation, start(federation))
    assert (report.floats_down, report.floats_up) == (2 * 33, 2 * 33)


def test_the_server_moves_a_share_of_the_way() -> None:
    full, half = (toy.federation("pfedbayes", changed("paper", server_step=b)) for b in (1.0, 0.5))
    begun = start(full).server.world.mu
    a, b = (advance(f, start(f))[0].server.world.mu for f in (full, half))
    torch.testing.assert_close(b, (begun + a) / 2, rtol=0, atol=1e-12)


def test_mean_weights_are_evaluated_beside_the_sampled_ones() -> None:
    federation = toy.federation("pfedbayes", changed("paper", test_draws=3))
    state, _ = advance(federation, start(federation))
    found, data = predict_all(federation, state), federation.data
    assert set(found) == {"pm", "pm-mean", "gm", "gm-mean"}
    for model, means in (("pm-mean", state.clients.personal.mu), ("gm-mean", state.server.world.mu.expand(3, -1))):
        logits = [
            plain_pfedbayes.logits(mu, data.samples(rows)) for mu, rows in zip(means, data.test.rows, strict=True)
        ]
        torch.testing.assert_close(found[model].probs, torch.cat(logits).softmax(-1), rtol=0, atol=1e-12)
    assert not torch.allclose(found["pm"].probs, found["pm-mean"].probs)
