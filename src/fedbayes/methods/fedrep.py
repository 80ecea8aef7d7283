r"""FedRep: head and body take turns: first the private head on the frozen body, then the shared body under that head.

Paper: Collins, Hassani, Mokhtari, Shakkottai, "Exploiting Shared Representations for Personalized Federated Learning",
ICML 2021, arXiv:2102.07078, Algorithm 1.

Idea: many cheap steps find the best head for the current representation, so the representation sees a good gradient.

Notation: $\phi$ -> `Server.shared`; $h_i$ -> `Client.own`; $\alpha$ -> `lr`; $\tau$ -> `head_epochs`.

Deviations: [C] is lgcollins/FedRep@d82e629, [B] BPFed's code hyLiu1994/BPFedMePD@7b32ff7 (preset `bpfed`).
    1. Order: head epochs, then body epochs [paper, C]; [B] on each batch one step of all weights, then four of the head
       -> `turns`.
    2. Optimiser: SGD with momentum 0.5 and weight decay 1e-4, not on biases, new at every visit [C]; Adam, kept [B].
       [B] has a second Adam for the head's extra steps, with moments of its own; here the head has one set of moments.
    3. Average: equal weights in Algorithm 1, n_i / n in [C] -> `weighting`.
    4. [C] fine-tunes the head for 10 epochs or more in a final round of all clients; here nobody is fine-tuned, and the
       method's own test is right after the broadcast.
    5. [B] trains all clients in every round and lets S upload: the experiment's `trains: all`.
    6. A newcomer trains its head on the frozen body (paper, section 3; BPFed, Figs. 7-9), one step a batch.

Reduces to: local training when everything is private: `head_epochs` of it, or `1 + head_steps` steps on each batch.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from fedbayes.federation.contract import Feed, Method
from fedbayes.models.network import Network
from fedbayes.parts.average import Weighting
from fedbayes.parts.partly_shared import Descent, Pass, Stage, partly_shared
from fedbayes.parts.sharing import Layers, Sharing


class Config(Descent):
    """Fields of FedRep."""

    shared: Layers = Field(description="The representation: `body`, or all but the last layers.")
    weighting: Weighting = Field(description="Weights of the mean: n_i / n, or 1 / S.")
    turns: Literal["epochs", "batches"] = Field(
        description="epochs: `head_epochs` of the head, then `body_epochs` of the body; batches: on each batch of the "
        "experiment's, a step of all weights, then `head_steps` of the head."
    )
    head_epochs: PositiveInt = Field(description="tau, epochs of the head; used with `turns: epochs`.")
    body_epochs: PositiveInt = Field(description="Epochs of the body; used with `turns: epochs`.")
    head_steps: PositiveInt = Field(description="Steps of the head on each batch; used with `turns: batches`.")


def build(config: Config, network: Network) -> Method:
    """FedRep for a network."""

    def stages(roles: Sharing) -> tuple[Stage, ...]:
        if config.turns == "batches":
            together = Pass(roles.shared + roles.private)
            return (Stage((together, Pass(roles.private, config.head_steps))),)
        return (
            Stage((Pass(roles.private),), lambda feed: _epochs(feed, config.head_epochs)),
            Stage((Pass(roles.shared),), lambda feed: _epochs(feed, config.body_epochs)),
        )

    return partly_shared(config, network, shared=config.shared, stages=stages, weighting=config.weighting)


def _epochs(feed: Feed, epochs: int) -> Feed:
    return feed._replace(amount=epochs, unit="epochs")
