r"""Local-only: every client trains on its own data, and nothing travels.

Paper: none; the floor that every personalised method must beat. Fig. 1b of pFedBayes compares with it, and the row
"LG-FedAvg" of BPFed's Table I is this method (hyLiu1994/BPFedMePD@7b32ff7 never loads the broadcast).

Idea: no communication. All clients begin with one common initial model, as in the federated runs beside it.

Notation: $w_i$ -> `Client.own`; $\eta$ -> `lr`.

Deviations:
    1. A client trains in the rounds it is chosen for (or in all, `trains: all`), so that it takes as many batches as in
       the federated runs.

Reduces to: central training when one client has all the data.
"""

from __future__ import annotations

from fedbayes.federation.contract import Method
from fedbayes.models.network import Network
from fedbayes.parts.partly_shared import Descent, Pass, Stage, partly_shared


class Config(Descent):
    """Fields of local training."""


def build(config: Config, network: Network) -> Method:
    """Local training of a network."""
    return partly_shared(config, network, shared="none", stages=lambda roles: (Stage((Pass(roles.kept),)),))
