r"""Networks whose weights are drawn from a mean-field Gaussian: pFedBayes and BPFed.

$\theta = \mu + \sigma g$ with $g \sim N(0, s^2)$, all weights as one vector. Gradients are kept in $(\mu, \sigma)$ and
turned into $\rho$ at the step, so that a softplus and its slope are worked out once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import Tensor
from torch.nn import functional as F

from fedbayes import optim
from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.flat import Layout, unflatten
from fedbayes.bayes.gaussian import Gaussian, Spread, slope
from fedbayes.bayes.layers import plain
from fedbayes.federation import rng
from fedbayes.federation.contract import Batch, Key
from fedbayes.models.network import Network
from fedbayes.optim import AdamState
from fedbayes.parts.draws import for_each_draw


class Moments(NamedTuple):
    """Adam's state for the two vectors of a Gaussian."""

    mu: AdamState
    rho: AdamState


def fresh_moments(gaussian: Gaussian) -> Moments:
    """Before the first step."""
    return Moments(*(optim.adam_start(vector) for vector in gaussian))


def descend(
    at: Gaussian, grad: Spread, moments: Moments, lr: Tensor, optimiser: Literal["adam", "gd"]
) -> tuple[Gaussian, Moments]:
    """One step of a Gaussian along a gradient in its mean and standard deviation."""
    grad_rho = grad.sigma * slope(at.rho)
    if optimiser == "gd":
        return Gaussian(at.mu - lr * grad.mu, at.rho - lr * grad_rho), moments
    mu, mu_moments = optim.adam(at.mu, grad.mu, moments.mu, lr)
    rho, rho_moments = optim.adam(at.rho, grad_rho, moments.rho, lr)
    return Gaussian(mu, rho), Moments(mu_moments, rho_moments)


def drawn_probabilities(
    model: Gaussian, x: Tensor, key: Key, network: Network, layout: Layout, draws: int, noise_std: float
) -> Tensor:
    """Class probabilities `[draw, sample, class]` of some drawn networks."""
    noise = rng.normal(rng.streams(key, draws), layout.size, model.mu.dtype)
    weights = model.mu + model.sigma * noise_std * noise

    def forward(vector: Tensor) -> Tensor:
        return F.softmax(network.apply(plain(unflatten(vector, layout)), x), dim=-1)

    return for_each_draw(forward, weights, network)


def likelihood_gradient(
    weights: Tensor, noise: Tensor, network: Network, layout: Layout, batch: Batch
) -> tuple[Spread, Tensor]:
    r"""Gradient in $(\mu, \sigma)$ of $-\frac1K \sum_k \sum_j \log p(y_j | x_j, \theta_k)$, Eq. (27), and its value.

    By the chain rule through $\theta_k = \mu + \sigma g_k$ (Eq. 26) only the network needs automatic differentiation:
    $d\theta/d\mu = 1$ and $d\theta/d\sigma = g_k$.

    Args:
        weights: theta_k, `[draw, weight]`.
        noise: g_k, likewise.
        network: whose weights they are.
        layout: where each of its tensors lies in them.
        batch: samples j.
    """

    def nll(vector: Tensor) -> Tensor:
        logits = network.apply(plain(unflatten(vector, layout)), batch.x)
        return (F.cross_entropy(logits, batch.y, reduction="none") * batch.mask).sum()

    if len(weights) == 1:
        # No axis of draws to carry along, and under `loop` none to convolve over.
        grad, value = grad_and_value(nll)(weights[0])
        return Spread(grad, grad * noise[0]), value
    grads, values = for_each_draw(grad_and_value(nll), weights, network)
    return Spread(grads.mean(0), (grads * noise).mean(0)), values.mean(0)
