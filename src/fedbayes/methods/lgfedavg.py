r"""LG-FedAvg: the lower layers are private, the top layers are shared; both are trained together.

Paper: Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov, Morency, "Think Locally, Act Globally: Federated
Learning with Local and Global Representations", 2020, arXiv:2001.01523, Algorithm 1.

Idea: each client learns its own representation of its own inputs; what is common is how representations are read.

Notation: $\ell_m$ -> `Client.own`; $g$ -> `Server.shared`; $\eta$ -> `lr`.

Deviations: [C] is pliang279/LG-FedAvg@7af0568, [B] BPFed's code hyLiu1994/BPFedMePD@7b32ff7 (preset `bpfed`).
    1. Average: n_m / n in Algorithm 1, the plain mean in [C] -> `weighting`.
    2. [C] starts from a FedAvg checkpoint and picks each user's best model on test data; here training starts from
       scratch and no model is picked by client.
    3. Optimiser: SGD [C], Adam kept for the whole run [B] -> `optimiser`, `optimiser_state`.
    4. [B] loses the broadcast: the counter of `User.set_parameters` is not advanced at a private tensor, so with
       private tensors first nothing is ever copied, and BPFed's Table I has local training -> `broadcast: lost`.
    5. [B] trains all clients in every round and lets S upload: the experiment's `trains: all`.
    6. A newcomer trains its lower layers under the frozen top (BPFed, Figs. 7-9).

Reduces to: local training when nothing is shared, or when the broadcast is lost.
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
    """Fields of LG-FedAvg."""

    shared: Layers = Field(description="The global layers, on top: `last 2`, or all but the first.")
    weighting: Weighting = Field(description="Weights of the mean: n_m / n, or 1 / S.")
    broadcast: Literal["loaded", "lost"] = Field(description="lost: clients never use it, as in BPFed's code.")


def build(config: Config, network: Network) -> Method:
    """LG-FedAvg for a network."""
    return partly_shared(
        config,
        network,
        shared=config.shared,
        stages=lambda roles: (Stage((Pass(roles.shared + roles.private),)),),
        weighting=config.weighting,
        loads_broadcast=config.broadcast == "loaded",
    )
