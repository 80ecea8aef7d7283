r"""The mean of a Gaussian with known variance as a network with one weight: Self-FL's synthetic experiments.

The output for a sample is the residual $\theta - x$, its loss $(\theta - x)^2 / 2v$ with $v$ the variance of a sample,
and a batch counts with the *sum* of its losses. On all $N_m$ samples of a client the gradient is then
$(\theta - \theta_m^{(L)}) / \sigma_m^2$ with $\sigma_m^2 = v / N_m$ and the local optimum $\theta_m^{(L)}$ at the mean
of the samples: Eqs. (4)-(5) of Self-FL (arXiv 2204.08069).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from fedbayes.config import NetworkConfig
from fedbayes.models.network import Network
from fedbayes.reading import ConfigError
from fedbayes.tensors import Layer, Params


class Config(NetworkConfig):
    """What is known of the Gaussian, and where estimates begin."""

    sample_variance: float = Field(gt=0, description="v, variance of a sample around its client's mean.")
    start: float = Field(description="theta^0; the paper does not state it.")


def build(config: Config, shape: tuple[int, ...], classes: int) -> Network:
    """The mean of scalar samples."""
    if shape != (1,):
        raise ConfigError(f"network gaussian_mean: the samples are {shape}; expected single numbers (1,)")

    def init(stream: torch.Generator) -> Params:
        return {"mean.weight": torch.tensor([config.start], dtype=torch.float64)}

    def residual(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return weight - x

    def apply(layer: Layer, x: Tensor) -> Tensor:
        return layer("mean", residual, x)

    def loss(residuals: Tensor, labels: Tensor) -> Tensor:
        return residuals.squeeze(-1) ** 2 / (2 * config.sample_variance)

    return Network(init, apply, ("mean",), "dense", loss, "sum")
