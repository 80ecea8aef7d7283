r"""Mean-field Gaussians $N(\mu, \mathrm{diag}\,\sigma^2)$ with $\sigma = \log(1 + e^\rho)$, on flat vectors of weights.

All functions are elementwise, so a leading axis of clients or of draws needs no second version.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Gaussian(NamedTuple):
    """A distribution over weights: one mean and one rho a weight."""

    mu: Tensor
    rho: Tensor

    @property
    def sigma(self) -> Tensor:
        """Standard deviations."""
        return softplus(self.rho)


class Spread(NamedTuple):
    """The same by its standard deviations, or a gradient in them; times `slope` it is one in rho."""

    mu: Tensor
    sigma: Tensor


def point(mu: Tensor) -> Gaussian:
    """All mass at `mu`: sigma is 0, exactly."""
    return Gaussian(mu, torch.full_like(mu, -torch.inf))


def softplus(rho: Tensor) -> Tensor:
    r"""$\log(1 + e^\rho)$, stable for large arguments.

    Written out: `torch.nn.functional.softplus` rounds differently at the end of a vector, and results must not depend
    on how many clients are in memory.
    """
    return rho.clamp_min(0) + torch.log1p(torch.exp(-rho.abs()))


def inverse_softplus(sigma: Tensor) -> Tensor:
    r"""The $\rho$ of a sigma: $\log(e^\sigma - 1) = \sigma + \log(1 - e^{-\sigma})$, stable at both ends."""
    return sigma + torch.log(-torch.expm1(-sigma))


def slope(rho: Tensor) -> Tensor:
    r"""$d\sigma / d\rho = 1 / (1 + e^{-\rho})$."""
    return 1 / (1 + torch.exp(-rho))


def kl(q: Gaussian, p: Gaussian) -> Tensor:
    r"""KL(q || p) $= \frac12 \sum_m [\log(\sigma_p^2/\sigma_q^2) + (\sigma_q^2 + (\mu_q-\mu_p)^2)/\sigma_p^2 - 1]$."""
    sq, sp = q.sigma, p.sigma
    terms = 2 * torch.log(sp / sq) + (sq**2 + (q.mu - p.mu) ** 2) / sp**2 - 1
    return 0.5 * terms.sum(-1)


def kl_gradient_first(q: Spread, p: Spread) -> Spread:
    r"""$\nabla_q$ KL(q || p) in $(\mu_q, \sigma_q)$.

    $(\mu_q - \mu_p)/\sigma_p^2$ and $\sigma_q/\sigma_p^2 - 1/\sigma_q$.
    """
    precision = p.sigma**-2
    return Spread((q.mu - p.mu) * precision, q.sigma * precision - 1 / q.sigma)


def kl_gradient_second(q: Spread, p: Spread) -> Spread:
    r"""$\nabla_p$ KL(q || p) in $(\mu_p, \sigma_p)$.

    $(\mu_p - \mu_q)/\sigma_p^2$ and $1/\sigma_p - (\sigma_q^2 + (\mu_q-\mu_p)^2)/\sigma_p^3$.
    """
    gap, precision = p.mu - q.mu, p.sigma**-2
    return Spread(gap * precision, (1 - (q.sigma**2 + gap**2) * precision) / p.sigma)
