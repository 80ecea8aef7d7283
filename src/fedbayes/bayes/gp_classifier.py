r"""A Gaussian process classifier of two classes with Pólya-Gamma variables (Polson, Scott, Windle 2013).

$p(y = 1 | f) = \sigma(f)$ with $f \sim N(0, K)$. Given $\omega_i \sim PG(1, f_i)$ the likelihood is Gaussian: that of
pseudo-observations $\kappa_i / \omega_i$ of $f_i$ with variance $1 / \omega_i$, where $\kappa = y - 1/2$. So with
$\Omega = \mathrm{diag}(\omega)$ and $A = K + \Omega^{-1}$

- $f | \omega, y \sim N(\Sigma \kappa, \Sigma)$, $\Sigma = K - K A^{-1} K$, and the two are drawn in turn (Gibbs);
- $f_* | \omega, y \sim N(k_*^T A^{-1} \Omega^{-1} \kappa,\; k_{**} - k_*^T A^{-1} k_*)$.

Every Cholesky factor costs about $n^3 / 3$ operations. Several chains run side by side on a first axis.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor
from torch.nn import functional as F

from fedbayes.bayes.polya_gamma import polya_gamma

# Which mean over f is taken by quadrature: that of the probability, or that of its logarithm.
Link = Literal["probability", "logarithm"]
# Points of the quadrature; gpytorch's default.
POINTS = 20


class Rbf(NamedTuple):
    r"""The kernel $s \exp(-|x - x'|^2 / 2 l^2)$, and what is added to the diagonal of its matrix."""

    output_scale: float
    length_scale: float
    jitter: float

    def between(self, a: Tensor, b: Tensor) -> Tensor:
        """Covariances `[row of a, row of b]` without the jitter."""
        kernel = ScaleKernel(RBFKernel()).to(a)
        kernel.outputscale, kernel.base_kernel.lengthscale = self.output_scale, self.length_scale
        found: Tensor = kernel.requires_grad_(False)(a, b).to_dense()
        return found

    def within(self, x: Tensor) -> Tensor:
        """The covariance matrix of the values at the rows of `x`."""
        return self.between(x, x) + self.jitter * torch.eye(len(x), dtype=x.dtype, device=x.device)


class Values(NamedTuple):
    """Means and variances of the process at some points, `[chain, point]` each."""

    mean: Tensor
    variance: Tensor


def gibbs(covariance: Tensor, y: Tensor, chains: int, sweeps: int, stream: torch.Generator) -> Tensor:
    """The last omega `[chain, sample]` of some chains.

    Args:
        covariance: K of the samples.
        y: their sides, 1 or 0.
        chains: how many, independent of each other.
        sweeps: draws of f and then of omega, after a first f from the prior.
        stream: of random numbers.
    """
    root, shape = _cholesky(covariance), (chains, len(y))
    omega = polya_gamma(_normal(shape, covariance, stream) @ root.mT, stream)
    for _ in range(sweeps):
        prior, noise = (_normal(shape, covariance, stream) for _ in range(2))
        omega = polya_gamma(latent(covariance, root, y, omega, prior, noise), stream)
    return omega


def latent(covariance: Tensor, root: Tensor, y: Tensor, omega: Tensor, prior: Tensor, noise: Tensor) -> Tensor:
    r"""A draw of $f | \omega, y$ for each chain, `[chain, sample]`.

    By Matheron's rule: a draw of the prior $f_0$ is corrected by what it and drawn noise $\epsilon \sim N(0,
    \Omega^{-1})$ miss of the pseudo-observations, $f = f_0 + K A^{-1} (\Omega^{-1} \kappa - f_0 - \epsilon)$. That has
    the right mean and covariance, and $\Sigma$ is never formed or factorised.

    Args:
        covariance: K.
        root: its Cholesky factor.
        y: sides of the samples, 1 or 0.
        omega: `[chain, sample]`.
        prior: standard normal numbers `[chain, sample]` for the draw of the prior.
        noise: likewise, for the noise.
    """
    first = prior @ root.mT
    missed = _observations(y, omega) - first - noise * omega.rsqrt()
    return first + torch.cholesky_solve(missed.unsqueeze(-1), _noisy(covariance, omega)).squeeze(-1) @ covariance


def predict_latent(covariance: Tensor, cross: Tensor, prior_variance: float, y: Tensor, omega: Tensor) -> Values:
    r"""The law of $f_* | \omega, y$ at new points, each by itself.

    Args:
        covariance: K of the samples.
        cross: covariances `[sample, point]` between samples and points.
        prior_variance: of the process at a point.
        y: sides of the samples, 1 or 0.
        omega: `[chain, sample]`.
    """
    root = _noisy(covariance, omega)
    across = torch.linalg.solve_triangular(root, cross.expand(len(omega), *cross.shape), upper=False)
    seen = torch.linalg.solve_triangular(root, _observations(y, omega).unsqueeze(-1), upper=False)
    variance = prior_variance - across.square().sum(1)
    return Values((across * seen).sum(1), variance.clamp_min(torch.finfo(variance.dtype).eps))


def probability(values: Values, link: Link) -> Tensor:
    r"""The probability of side 1 at each point, mean over chains, by Gauss-Hermite quadrature over $f_*$.

    `probability` is $E[\sigma(f_*)]$, the predictive probability itself; `logarithm` is $\exp E[\log \sigma(f_*)]$,
    which is never larger.
    """
    places, weights = (torch.from_numpy(part).to(values.mean) for part in np.polynomial.hermite.hermgauss(POINTS))
    f = values.mean.unsqueeze(-1) + torch.sqrt(2 * values.variance).unsqueeze(-1) * places
    weights = weights / math.sqrt(math.pi)
    if link == "probability":
        return (torch.sigmoid(f) @ weights).mean(0)
    return torch.exp(F.logsigmoid(f) @ weights).mean(0)


def _observations(y: Tensor, omega: Tensor) -> Tensor:
    """Pseudo-observations kappa / omega."""
    return (y.to(omega.dtype) - 0.5) / omega


def _noisy(covariance: Tensor, omega: Tensor) -> Tensor:
    """Cholesky factors `[chain, sample, sample]` of A."""
    return _cholesky(covariance + torch.diag_embed(1 / omega))


def _cholesky(matrix: Tensor) -> Tensor:
    found: Tensor = psd_safe_cholesky(matrix)
    return found


def _normal(shape: tuple[int, int], like: Tensor, stream: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=stream, dtype=like.dtype, device=stream.device).to(like.device)
