r"""FedAMP: each client is sent a mixture of all models, weighted by how near they are to its own.

Paper: Huang, Chu, Zhou, Wang, Liu, Pei, Zhang, "Personalized Cross-Silo Federated Learning on Non-IID Data", AAAI 2021,
arXiv:2007.03797, Algorithm 1.

Idea: $\min_W \sum_i F_i(w_i) + \lambda \sum_{i<j} A(|w_i - w_j|^2)$ with $A(x) = 1 - e^{-x/\sigma}$ pulls similar
clients together; a gradient step on the second sum is a mixture of models.

Notation: $u_i$ -> `Down.mixture`; $w_i$ -> `Client.weights`; $\sigma$ -> `sigma`;
$\lambda, \alpha_k$ -> `lam`, `alpha`.

Deviations:
    1. In the mixture alpha_k is at most sigma / (N - 1), which keeps it a convex combination, as the paper wants and
       leaves to the choice of alpha_k: no A' is larger than 1 / sigma.
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
from fedbayes.parts.message_passing import Passing, completed, message_passing, others, squared_norms


class Config(Passing):
    """Fields of FedAMP."""

    sigma: float = Field(gt=0, description="sigma of A(x) = 1 - exp(-x / sigma).")


def build(config: Config, network: Network) -> Method:
    """FedAMP for a network."""

    def mixing(own: Tensor, models: Tensor, seen: Tensor, client: Tensor, alpha: Tensor) -> Tensor:
        r"""$\xi_{ij} = \alpha_k A'(|w_i - w_j|^2)$, $A'(x) = e^{-x/\sigma} / \sigma$, $j \ne i$; the rest is own."""
        usable = others(seen, client)
        # |w_i - w_j|^2 by products: the differences themselves would be a model for each pair of clients.
        squares = (squared_norms(models) - 2 * (models @ own) + own @ own).clamp_min(0)
        step = alpha.clamp_max(config.sigma / usable.sum().clamp_min(1))
        return completed(step * torch.exp(-squares / config.sigma) / config.sigma * usable, client)

    return message_passing(config, network, mixing)
