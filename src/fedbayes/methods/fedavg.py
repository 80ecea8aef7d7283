r"""FedAvg: local SGD from the server's weights, then a weighted mean.

Paper: McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, arXiv:1602.05629, Algorithm 1.

Idea: clients take several SGD steps on their own data before anything is averaged, which saves rounds.

Notation: $w^t$ -> `Server.weights`; $\eta$ -> `lr`; $n_k / n$ -> `weighting: samples`.

Deviations:
    1. A round is a number of batches or of epochs as the experiment's `local` says; Algorithm 1 has epochs, the code
       base of the personalised papers (CharlieDinh/pFedMe) runs batches from an unshuffled cyclic loader.
    2. The personal model is the global one after one more local visit (fine-tuning on the client's training data), for
       newcomers too. Algorithm 1 has no personal model; FedUAB evaluates FedAvg so.

Reduces to: plain SGD when there is one client; the broadcast weights when lr = 0.
"""

from __future__ import annotations

from pydantic import Field

from fedbayes.config import MethodConfig
from fedbayes.federation.contract import Method
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting
from fedbayes.parts.local_sgd import LocalSgd
from fedbayes.parts.one_model import OneModel


class Config(MethodConfig):
    """Fields of FedAvg."""

    lr: float = Field(ge=0, description="eta, step size of local SGD.")
    momentum: float = Field(ge=0, lt=1, description="Momentum of local SGD, restarted at every visit; 0 in the paper.")
    weighting: Weighting = Field(description="Weights of the mean: n_k / n, or 1 / S.")


def build(config: Config, network: Network) -> Method:
    """FedAvg for a network."""
    server, clients = OneModel(network, config.weighting), LocalSgd(network, config.lr, config.momentum)
    return Method(
        init=server.init,
        join=clients.join,
        send=server.send,
        train=clients.train,
        merge=server.merge,
        adapt=clients.fine_tuned,
        newcomer=clients.fine_tuned,
        common=server.common,
        predict=server.predict,
    )
