"""The work of the benchmark as a good PyTorch programmer writes it: one client at a time, modules and torch.optim.

It has every fair advantage: images are floats in memory before the clock starts, in channels-last layout for
convolutions; batches are views; one module serves all clients and nothing is cloned that need not be; constants are
computed once; and each optimiser is the variant that is fastest here (SGD as a loop over tensors, Adam fused).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedbayes.bayes.gaussian import Gaussian
from fedbayes.federation.resident import Resident
from fedbayes.tensors import Params

# Batches of each client, in the order they come.
Batches = list[list[tuple[Tensor, Tensor]]]
# Standard normal numbers like a vector, for (round, client, batch, inner step).
Noise = Callable[[Tensor, int, int, int, int], Tensor]


def fresh_noise(like: Tensor, round_: int, client: int, batch: int, inner: int) -> Tensor:
    """Noise from PyTorch's own generator."""
    return torch.randn_like(like)


def batches(data: Resident, size: int) -> Batches:
    """Each client's training samples as network inputs, side by side, and views of them."""
    found: Batches = []
    for rows, count in zip(data.train.rows, data.train.sizes.tolist(), strict=True):
        x, y = data.prepare(data.inputs[rows[:count]]), data.labels[rows[:count]]
        if x.shape[1] > 1:
            x = x.contiguous(memory_format=torch.channels_last)
        found.append(list(zip(torch.split(x, size), torch.split(y, size), strict=True)))
    return found


def module(network: str, weights: Params) -> nn.Sequential:
    """The network as a module with the given weights."""
    if network == "mlp":
        net = nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    else:
        net = nn.Sequential(
            nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip
    net = net.to(next(iter(weights.values())).dtype)
    if network == "cnn":
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    _load(net, list(weights.values()))
    return net


def fedavg(
    net: nn.Sequential, weights: Params, data: Batches, shares: Sequence[float], rounds: int, steps: int, lr: float
) -> Params:
    """Rounds of FedAvg with all clients; loaders go round and round."""
    world, parameters = list(weights.values()), list(net.parameters())
    optimiser = torch.optim.SGD(parameters, lr=lr, foreach=False)
    for round_ in range(rounds):
        total = [torch.zeros_like(w) for w in world]
        for own, share in zip(data, shares, strict=True):
            _load(net, world)
            for t in range(round_ * steps, (round_ + 1) * steps):
                x, y = own[t % len(own)]
                optimiser.zero_grad()
                torch.autograd.backward(F.cross_entropy(net(x), y))
                optimiser.step()
            for part, parameter in zip(total, parameters, strict=True):
                part.add_(parameter.detach(), alpha=share)
        world = total
    return dict(zip(weights, world, strict=True))


def probabilities(nets: Sequence[nn.Sequential], images: Sequence[Tensor]) -> Tensor:
    """Each personal model's predictions for its own images, one after the other."""
    with torch.inference_mode():
        return torch.cat([F.softmax(net(x), -1) for net, x in zip(nets, images, strict=True)])


class BayesianClient:
    """A client of pFedBayes: two Gaussians over one flat vector of weights, each with its Adam."""

    def __init__(self, world: Gaussian, config: dict[str, Any]) -> None:
        self.personal, self.localized = ([v.clone().requires_grad_() for v in world] for _ in range(2))
        self.first = torch.optim.Adam(self.personal, lr=config["lr_personal"], fused=True)
        self.second = torch.optim.Adam(self.localized, lr=config["lr_global"], fused=True)
        self.std, self.weight = config["noise_std"], config["zeta"] / config["kl_divisor"]

    def start_round(self, world: Gaussian) -> None:
        """Overwrite the localized global model with the broadcast."""
        with torch.no_grad():
            for own, sent in zip(self.localized, world, strict=True):
                own.copy_(sent)

    def visit(self, x: Tensor, y: Tensor, noise: Sequence[Tensor]) -> None:
        """One batch: a personal step for each noise vector, then one step of the localized global model."""
        (mu, rho), (mu_world, rho_world) = self.personal, self.localized
        with torch.no_grad():
            half_precision = 0.5 / F.softplus(rho_world) ** 2
            centre = mu_world.detach()
        for g in noise:
            sigma = F.softplus(rho)
            nll = F.cross_entropy(perceptron(torch.addcmul(mu, sigma, g, value=self.std), x), y, reduction="sum")
            # KL(q || w) without what does not depend on q.
            kl = ((sigma**2 + (mu - centre) ** 2) * half_precision - sigma.log()).sum()
            self.first.zero_grad()
            torch.autograd.backward(nll + self.weight * kl)
            self.first.step()
        with torch.no_grad():
            variance = F.softplus(rho) ** 2
        sigma_world = F.softplus(rho_world)
        kl = (sigma_world.log() + 0.5 * (variance + (mu.detach() - mu_world) ** 2) / sigma_world**2).sum()
        self.second.zero_grad()
        torch.autograd.backward(self.weight * kl)
        self.second.step()


def perceptron(vector: Tensor, x: Tensor) -> Tensor:
    """Logits of 784-100-10 with its weights in one flat vector."""
    w0, b0, w1, b1 = torch.split(vector, [78_400, 100, 1000, 10])
    return F.linear(F.relu(F.linear(x.flatten(1), w0.view(100, 784), b0)), w1.view(10, 100), b1)


def pfedbayes(
    world: Gaussian,
    data: Batches,
    shares: Sequence[float],
    rounds: int,
    steps: int,
    config: dict[str, Any],
    noise: Noise,
) -> Params:
    """Rounds of pFedBayes `reference` with all clients."""
    clients = [BayesianClient(world, config) for _ in data]
    for round_ in range(rounds):
        total = Gaussian(*(torch.zeros_like(v) for v in world))
        for i, (client, own) in enumerate(zip(clients, data, strict=True)):
            client.start_round(world)
            for t in range(steps):
                x, y = own[(round_ * steps + t) % len(own)]
                client.visit(x, y, [noise(world.mu, round_, i, t, inner) for inner in range(config["inner_steps"])])
            for part, localized in zip(total, client.localized, strict=True):
                part.add_(localized.detach(), alpha=shares[i])
        world = total
    return world._asdict()


def _load(net: nn.Sequential, tensors: Sequence[Tensor]) -> None:
    """Overwrite a module's parameters; networks list their weights in the order a module does."""
    with torch.no_grad():
        for parameter, tensor in zip(net.parameters(), tensors, strict=True):
            parameter.copy_(tensor)
