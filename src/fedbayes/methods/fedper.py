r"""FedPer: the body of the network is shared, the last layers are private; both are trained together.

Paper: Arivazhagan, Aggarwal, Singh, Choudhary, "Federated Learning with Personalization Layers", 2019,
arXiv:1912.00818, Algorithms 1 and 2.

Idea: features are common to all clients, what they mean is not: only the base layers are averaged.

Notation: $W_B$ -> `Server.shared`; $W_{P_j}$ -> `Client.own`; $\eta$ -> `lr`; $\gamma_j = n_j / n$ -> `weighting`.

Deviations: [C] is BPFed's code, hyLiu1994/BPFedMePD@7b32ff7; the authors of FedPer published none.
    1. Optimiser: SGD in the paper; [C] Adam, one object a client for the whole run -> `optimiser`, `optimiser_state`.
    2. Personal layers begin as each client's own draw (Algorithm 1), or from one common value [C] -> `private_start`.
    3. Test: after the broadcast, the client's own head on the averaged body [C].
    4. [C] trains all clients in every round and lets S upload: the experiment's `trains: all`.
    5. A newcomer trains its head on the frozen body (BPFed, Figs. 7-9).

Reduces to: FedAvg without momentum when everything is shared; local training when nothing is.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fedbayes.federation.contract import Method
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting
from fedbayes.parts.partly_shared import Descent, Pass, Stage, partly_shared
from fedbayes.parts.sharing import Layers


class Config(Descent):
    """Fields of FedPer."""

    shared: Layers = Field(description="Base layers: `body`, or all but the last K_P.")
    reset: Layers = Field(description="Private layers that begin every visit anew, so that no client keeps them.")
    weighting: Weighting = Field(description="Weights of the mean: n_j / n, or 1 / S.")
    private_start: Literal["own", "common"] = Field(
        description="Private layers begin as a draw of each client, or of all."
    )


def build(config: Config, network: Network) -> Method:
    """FedPer for a network."""
    return partly_shared(
        config,
        network,
        shared=config.shared,
        stages=lambda roles: (Stage((Pass(roles.shared + roles.private),)),),
        weighting=config.weighting,
        reset=config.reset,
        common_start=config.private_start == "common",
    )
