"""FedAvg as anybody would write it: one client at a time, torch.nn and torch.optim, no engine."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedbayes.federation.loop import Federation


def module(weights: dict[str, Tensor]) -> nn.Sequential:
    """The toy perceptron as a module with the given weights."""
    hidden, head = weights["hidden0.weight"], weights["head.weight"]
    net = nn.Sequential(nn.Flatten(), nn.Linear(hidden.shape[1], hidden.shape[0]), nn.ReLU(), nn.Linear(*head.T.shape))
    net = net.to(hidden.dtype)
    with torch.no_grad():
        for layer, name in ((net[1], "hidden0"), (net[3], "head")):
            layer.weight.copy_(weights[f"{name}.weight"])
            layer.bias.copy_(weights[f"{name}.bias"])
    return net


def fedavg(
    federation: Federation, weights: dict[str, Tensor], rounds: int, batch: int, steps: int, lr: float, momentum: float
) -> dict[str, Tensor]:
    """Rounds of FedAvg over all clients with an unshuffled loader that goes on across rounds."""
    data, taken = federation.data, [0] * federation.data.population
    for _ in range(rounds):
        total = {name: torch.zeros_like(w) for name, w in weights.items()}
        for client in range(data.population):
            rows = data.train.rows[client, : data.train.sizes[client]]
            batches = list(rows.split(batch))
            net = module(weights)
            optimiser = torch.optim.SGD(net.parameters(), lr=lr, momentum=momentum)
            for _ in range(steps):
                own = batches[taken[client] % len(batches)]
                taken[client] += 1
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(data.inputs[own]), data.labels[own]).backward()
                optimiser.step()
            share = int(data.train.sizes[client]) / int(data.train.sizes.sum())
            trained = dict(
                zip(("hidden0.weight", "hidden0.bias", "head.weight", "head.bias"), net.parameters(), strict=True)
            )
            for name in total:
                total[name] += share * trained[name].detach()
        weights = total
    return weights
