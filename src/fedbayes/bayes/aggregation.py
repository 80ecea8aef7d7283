r"""One Gaussian from several: the server's step of methods whose clients hold mean-field Gaussians.

Weights $p_k$ sum to 1. All rules agree where all Gaussians are equal, but `independents`, which shrinks them.

- `rho`: means and rhos are averaged as they are stored;
- `sigma`: means and standard deviations are averaged;
- `moments`: mean and variance of the mixture, $\sigma^2 = \sum_k p_k [\sigma_k^2 + (\mu_k - \mu)^2]$ (pFedBayes,
  Lemma A.2);
- `conflation`: the normalised product $\prod_k N_k^{p_k}$, $1/\sigma^2 = \sum_k p_k / \sigma_k^2$ and
  $\mu = \sigma^2 \sum_k p_k \mu_k / \sigma_k^2$ (FedUAB, Eq. 8);
- `independents`: $\sum_k p_k \omega_k$ of independent $\omega_k$, $\sigma^2 = \sum_k p_k^2 \sigma_k^2$ (FedUAB,
  Eq. 7).

For equal means, sigma of the conflation is at most that of the average of rhos, and that at most the average of sigmas.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fedbayes.bayes.gaussian import Gaussian, inverse_softplus

Aggregation = Literal["rho", "sigma", "moments", "conflation", "independents"]


def aggregate(stacked: Gaussian, weights: Tensor, rule: Aggregation) -> Gaussian:
    """The Gaussian that a rule makes of Gaussians stacked along their first axis.

    Args:
        stacked: `[client, weight]`.
        weights: `[client]`, summing to 1.
        rule: see above.
    """

    def mean(values: Tensor) -> Tensor:
        averaged: Tensor = torch.tensordot(weights, values, dims=1)
        return averaged

    if rule == "rho":
        return Gaussian(mean(stacked.mu), mean(stacked.rho))
    sigma = stacked.sigma
    if rule == "sigma":
        return Gaussian(mean(stacked.mu), inverse_softplus(mean(sigma)))
    if rule == "conflation":
        variance = 1 / mean(sigma**-2)
        return Gaussian(variance * mean(stacked.mu * sigma**-2), inverse_softplus(variance.sqrt()))
    mu = mean(stacked.mu)
    if rule == "independents":
        squares: Tensor = torch.tensordot(weights**2, sigma**2, dims=1)
        return Gaussian(mu, inverse_softplus(squares.sqrt()))
    return Gaussian(mu, inverse_softplus(mean(sigma**2 + (stacked.mu - mu) ** 2).sqrt()))
