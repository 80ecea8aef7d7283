"""Losses of the Bayesian methods against quadrature: a network of two weights, whose expectations are integrals.

One input, two classes, logits $w_0 x$ and $w_1 x$ without a bias: the loss depends on $(w_1 - w_0) x$ alone. Averages
over draws may be off by four standard errors, which happens once in 16,000 times.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from agreement import preset
from fedbayes.bayes.flat import layout_of
from fedbayes.bayes.gaussian import Gaussian, inverse_softplus
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Facts
from fedbayes.methods import load_method
from fedbayes.models.network import Network
from fedbayes.parts.drawn_weights import likelihood_gradient

DRAWS, X = 20_000, 1.7
MU = torch.tensor([[0.4], [-0.9]], dtype=torch.float64)
SIGMA = torch.tensor([[0.6], [0.8]], dtype=torch.float64)
BATCH = Batch(torch.full((1, 1), X, dtype=torch.float64), torch.tensor([1]), torch.ones(1, dtype=torch.float64))


def network() -> Network:
    def apply(layer: Any, x: Tensor) -> Tensor:
        found: Tensor = layer("head", F.linear, x)
        return found

    return Network(lambda stream: {"head.weight": MU.clone()}, apply, ("head",), "dense")


def facts(size: int) -> Facts:
    one = torch.tensor(1)
    return Facts(one * 0, one * size, one.expand(2) * size, one * 0, one, one)


def moments(gap_mean: Tensor, gap_std: Tensor, function: Any) -> tuple[float, float]:
    """Mean and mean square of a function of a normal gap, by Gauss-Hermite quadrature."""
    nodes, weights = (torch.from_numpy(v) for v in np.polynomial.hermite_e.hermegauss(80))
    values, weights = function(gap_mean + gap_std * nodes), weights / math.sqrt(2 * math.pi)
    return float((weights * values).sum()), float((weights * values**2).sum())


def expectation(gap_mean: Tensor, gap_std: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of the loss log(1 + exp(-g))."""
    mean, square = moments(gap_mean, gap_std, lambda gap: F.softplus(-gap))
    return mean, math.sqrt(square - mean**2)


def test_drawn_weights() -> None:
    layout = layout_of({"head.weight": MU})
    noise = rng.normal(torch.tensor(3), 2 * DRAWS, torch.float64).view(DRAWS, 2)
    drawn = MU.flatten() + SIGMA.flatten() * noise
    gradient, value = likelihood_gradient(drawn, noise, network(), layout, BATCH)
    gap = ((MU[1] - MU[0]) * X, SIGMA.square().sum().sqrt() * X)
    mean, std = expectation(*gap)
    assert float(value) == pytest.approx(mean, abs=4 * std / math.sqrt(DRAWS))
    # Derivatives of the integral by differences; a gradient's entry scatters by less than x.
    step = 1e-4
    in_mu = (expectation(gap[0] + step * X, gap[1])[0] - expectation(gap[0] - step * X, gap[1])[0]) / (2 * step)
    assert float(gradient.mu[1]) == pytest.approx(in_mu, abs=4 * X / math.sqrt(DRAWS))
    wider = [(SIGMA[0].square() + (SIGMA[1] + side * step).square()).sqrt() * X for side in (1, -1)]
    in_sigma = (expectation(gap[0], wider[0])[0] - expectation(gap[0], wider[1])[0]) / (2 * step)
    assert float(gradient.sigma[1]) == pytest.approx(in_sigma, abs=4 * X / math.sqrt(DRAWS))


def test_feduab() -> None:
    fields = preset("feduab", "paper", draws=DRAWS, kl_weight=0.3, prior="zero-mean", initial_sigma=0.5)
    method = load_method("feduab", fields, network())
    server = method.init(torch.tensor(0), 1)
    work = method.train.begin(server.world, method.join(server, facts(1), torch.tensor(0)), facts(1), torch.tensor(0))
    work = work._replace(q=type(work.q)({"head.weight": MU}, {"head.weight": inverse_softplus(SIGMA)}))
    with torch.no_grad():
        loss = float(method.train.phases[0].step(work, BATCH, torch.tensor(7)).meter.loss)
    mean, std = expectation((MU[1] - MU[0]) * X, SIGMA.square().sum().sqrt() * X)
    expected = mean + 0.3 * float(kl_divergence(Normal(MU, SIGMA), Normal(0.0, 0.5)).sum())
    assert loss == pytest.approx(expected, abs=4 * std / math.sqrt(DRAWS))


@pytest.mark.parametrize(("likelihood", "scale"), [("expected", "dataset"), ("mixture", "mean")])
def test_lrbpfl(likelihood: str, scale: str) -> None:
    # Rank one: weights w_0 q_0 r and w_1 q_1 r. Given r the gap is normal; r is integrated outside.
    size = 5
    fields = preset(
        "lrbpfl", "paper", draws=DRAWS, rank=1, likelihood=likelihood, scale=scale, penalty=0.7, gate_start=1.0
    )
    method = load_method("lrbpfl", fields, network())
    server = method.init(torch.tensor(0), 1)
    client = method.join(server, facts(size), torch.tensor(0))
    work = method.train.begin(server.weights, client, facts(size), torch.tensor(0))
    q, r, gate = Normal(torch.tensor([1.1, 0.7]), torch.tensor([0.3, 0.5])), Normal(0.9, 0.4), 1 / (1 + math.exp(-1.0))
    mu, sigma = (torch.cat([getattr(q, part).double(), getattr(r, part).double()[None]]) for part in ("loc", "scale"))
    work = work._replace(mask=work.mask._replace(factors=Gaussian(mu, inverse_softplus(sigma))))
    with torch.no_grad():
        after = method.train.phases[0].step(work, BATCH, torch.tensor(7))
    # Losses, or probabilities of the label: their mean and its standard error, which log divides by the mean.
    function: Any = torch.sigmoid if likelihood == "mixture" else lambda gap: F.softplus(-gap)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    mean, square, w = 0.0, 0.0, MU.flatten()
    for node, weight in zip(nodes, weights / math.sqrt(2 * math.pi), strict=True):
        factor = gate * (float(r.loc) + float(r.scale) * node) * X
        spread = abs(factor) * ((w[1] * sigma[1]) ** 2 + (w[0] * sigma[0]) ** 2).sqrt()
        inner = moments(factor * (w[1] * mu[1] - w[0] * mu[0]), spread, function)
        mean, square = mean + weight * inner[0], square + weight * inner[1]
    error = 4 * math.sqrt(square - mean**2) / math.sqrt(DRAWS)
    fit, error = (-math.log(mean), error / mean) if likelihood == "mixture" else (mean, error)
    divergence = float(kl_divergence(Normal(mu, sigma), Normal(gate**-0.5, math.sqrt(0.1))).sum())
    times = size if scale == "dataset" else 1
    assert float(after.fit) == pytest.approx(fit, abs=error)
    assert float(after.meter.loss) == pytest.approx(
        times * (fit + divergence / size) + 0.7 * gate**2, abs=times * error
    )
