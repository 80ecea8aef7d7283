"""Networks under vmap: what clients give side by side is what each gives alone."""

from __future__ import annotations

import torch
from torch import Tensor

from fedbayes.bayes.layers import plain
from fedbayes.models.network import Network


def assert_clients_agree(network: Network, x: Tensor) -> None:
    """Clients with weights and inputs of their own, `x` being `[client, sample, ...]`."""
    clients = [network.init(torch.Generator().manual_seed(seed)) for seed in range(len(x))]
    stacked = {name: torch.stack([c[name] for c in clients]) for name in clients[0]}
    together = torch.vmap(lambda weights, own: network.apply(plain(weights), own))(stacked, x)
    for weights, own, logits in zip(clients, x, together, strict=True):
        torch.testing.assert_close(network.apply(plain(weights), own), logits)
