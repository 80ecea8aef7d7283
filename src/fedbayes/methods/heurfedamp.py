r"""HeurFedAMP: each client is sent a mixture of all models, weighted by their cosine similarity with its own.

Paper: Huang, Chu, Zhou, Wang, Liu, Pei, Zhang, "Personalized Cross-Silo Federated Learning on Non-IID Data", AAAI 2021,
arXiv:2007.03797, section "HeurFedAMP".

Idea: clients with similar data should help each other more; in high dimensions cosines tell more than distances.

Notation: $u_i$ -> `Down.mixture`; $w_i$ -> `Client.weights`; $\xi_{ii}$ -> `self_weight`; $\sigma$ -> `sigma`;
$\lambda, \alpha_k$ -> `lam`, `alpha`.

Deviations: the original code's address is dead; [F] is the re-implementation in flgo.
    1. Participation: full in the paper. Where only some clients take part, u_i mixes the latest known models of all
       that have uploaded.
    2. A client that never uploaded (in its first round, or a newcomer) has no model worth a weight of its own: u_i is
       then the mixture of the others alone.
    3. Start of a visit: u_i (paper), w_i in some copies -> `start`.
    4. The solver is SGD for the experiment's batches. lambda and alpha_k are [F]'s; pFedBayes prints a learning rate
       and the self weight only.

Reduces to: local training when the self weight is 1, lam = 0 and everybody takes part in every round; or when lam = 0
and visits begin at the client's own model.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from fedbayes.federation.contract import Method
from fedbayes.models.network import Network
from fedbayes.parts.message_passing import Passing, completed, message_passing, others, squared_norms


class Config(Passing):
    """Fields of HeurFedAMP."""

    self_weight: float = Field(ge=0, le=1, description="xi_ii, share of a client's own model (pFedBayes: alpha).")
    sigma: float = Field(ge=0, description="sigma, how sharply the similarity decides; 0 weights the others equally.")


def build(config: Config, network: Network) -> Method:
    """HeurFedAMP for a network."""

    def mixing(own: Tensor, models: Tensor, seen: Tensor, client: Tensor, alpha: Tensor) -> Tensor:
        r"""$\xi_{ij} = (1 - \xi_{ii}) e^{\sigma \cos(w_i, w_j)} / \sum_{h \ne i} e^{\sigma \cos(w_i, w_h)}$."""
        usable = others(seen, client)
        cosines = (models @ own) / (squared_norms(models) * (own @ own)).sqrt()
        # Cosines are at most 1: taking sigma off the exponent keeps it from overflowing, and cancels in the quotient.
        attention = torch.exp(config.sigma * (cosines - 1)) * usable
        share = 1 - config.self_weight * seen[client].to(own.dtype)
        total = attention.sum()
        return completed(share * attention / torch.where(total > 0, total, 1.0), client)

    return message_passing(config, network, mixing)
