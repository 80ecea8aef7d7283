r"""FedAMP: each client is sent a mixture of all models, weighted by how near they are to its own.

Paper: Huang, Chu, Zhou, Wang, Liu, Pei, Zhang, "Personalized Cross-Silo Federated Learning on Non-IID Data", AAAI 2021,
arXiv:2007.03797, Algorithm 1.

Idea: $\min_W \sum_i F_i(w_i) + \lambda \sum_{i<j} A(|w_i - w_j|^2)$ with $A(x) = 1 - e^{-x/\sigma}$ pulls similar
clients together; a gradient step on the second sum is a mixture of models.

Notation: $u_i$ -> `Down.mixture`; $w_i$ -> `Client.weights`; $\sigma$ -> `sigma`;
$\lambda, \alpha_k$ -> `lam`, `alpha`.

Deviations:
    1. The weights of the others are scaled down where they sum to more than 1: the paper wants a convex combination and
       leaves it to the choice of alpha_k.
    2. Participation, clients that never uploaded and the start of a visit as in `heurfedamp.py`.
    3. TsingZ0/PFLlib@d832e76 builds the pull from detached tensors, so that it has no gradient, and from the norm, not
       its square: `lam: 0` gives the same steps.

Reduces to: local training when sigma is so small that nobody is near, and lam = 0.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from fedbayes.federation.contract import Method
from fedbayes.models.network import Network
from fedbayes.parts.message_passing import Passing, completed, message_passing, others


class Config(Passing):
    """Fields of FedAMP."""

    sigma: float = Field(gt=0, description="sigma of A(x) = 1 - exp(-x / sigma).")


def build(config: Config, network: Network) -> Method:
    """FedAMP for a network."""

    def mixing(own: Tensor, models: Tensor, seen: Tensor, client: Tensor, alpha: Tensor) -> Tensor:
        r"""$\xi_{ij} = \alpha_k A'(|w_i - w_j|^2)$, $A'(x) = e^{-x/\sigma} / \sigma$, $j \ne i$; the rest is own."""
        squares = (models - own).square().sum(1)
        near = alpha * torch.exp(-squares / config.sigma) / config.sigma * others(seen, client).to(own.dtype)
        return completed(near / near.sum().clamp_min(1), client)

    return message_passing(config, network, mixing)
