"""PFedBayes one client at a time, with torch.optim, torch.distributions and automatic differentiation throughout.

Slow and plain on purpose: no engine, no flat vectors, no written gradients. Only the noise comes from the same keys.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from fedbayes.federation import rng
from fedbayes.federation.loop import Federation

SHAPES = {"hidden0.weight": (5, 2), "hidden0.bias": (5,), "head.weight": (3, 5), "head.bias": (3,)}


def logits(vector: Tensor, x: Tensor) -> Tensor:
    w, at = {}, 0
    for name, shape in SHAPES.items():
        count = int(torch.tensor(shape).prod())
        w[name] = vector[at : at + count].reshape(shape)
        at += count
    hidden = F.relu(F.linear(x.flatten(1), w["hidden0.weight"], w["hidden0.bias"]))
    return F.linear(hidden, w["head.weight"], w["head.bias"])


class PlainClient:
    """A client with its two Gaussians and their optimisers."""

    def __init__(self, mu: Tensor, rho: Tensor, config: dict[str, Any]) -> None:
        self.config, self.taken = config, 0
        self.personal = [mu.clone().requires_grad_(), rho.clone().requires_grad_()]
        self.localized = [mu.clone().requires_grad_(), rho.clone().requires_grad_()]
        kind = torch.optim.Adam if config["optimiser"] == "adam" else torch.optim.SGD
        self.optimisers = [kind(self.personal, lr=config["lr_personal"]), kind(self.localized, lr=config["lr_global"])]

    def kl(self, q: list[Tensor], p: list[Tensor]) -> Tensor:
        return kl_divergence(Normal(q[0], F.softplus(q[1])), Normal(p[0], F.softplus(p[1]))).sum()

    def tie(self, q: list[Tensor], w: list[Tensor]) -> Tensor:
        """KL(q || w), or KL(w || q) as BPFed's fork of the public code has it."""
        return self.kl(w, q) if self.config["global_kl"] == "exchanged" else self.kl(q, w)

    def visit(self, world: list[Tensor], x: Tensor, y: Tensor, batch: int, steps: int, key: Tensor) -> list[Tensor]:
        """One round at this client; returns what it uploads."""
        config = self.config
        with torch.no_grad():
            for own, sent in zip(self.localized, world, strict=True):
                own.copy_(sent)
            if config["personal_start"] == "broadcast":
                for own, sent in zip(self.personal, world, strict=True):
                    own.copy_(sent)
        batches = list(zip(x.split(batch), y.split(batch), strict=True))
        for t in range(steps):
            own_x, own_y = batches[self.taken % len(batches)]
            self.taken += 1
            for inner in range(config["inner_steps"]):
                self.personal_step(own_x, own_y, len(x), world, rng.fold(rng.fold(key, t), inner))
            self.optimisers[1].zero_grad()
            weight = 1.0 if config["global_kl"] == "plain" else config["zeta"] / config["kl_divisor"]
            (weight * self.tie([v.detach() for v in self.personal], self.localized)).backward()
            self.optimisers[1].step()
        return [v.detach().clone() for v in self.localized]

    def personal_step(self, x: Tensor, y: Tensor, size: int, world: list[Tensor], key: Tensor) -> None:
        """One step on Omega^i, Eq. (27)."""
        config, (mu, rho) = self.config, self.personal
        noise = config["noise_std"] * rng.normal(key, config["draws"] * len(mu), mu.dtype).view(config["draws"], -1)
        reduction = "mean" if config["likelihood"] == "mean" else "sum"
        nll = sum(F.cross_entropy(logits(mu + F.softplus(rho) * g, x), y, reduction=reduction) for g in noise)
        # `classes`: LR-BPFL's code, which has the mean over classes of the batch's sums.
        scale = {"dataset": size / len(x), "classes": 1 / SHAPES["head.bias"][0]}
        prior = [v.detach() for v in self.localized] if config["prior"] == "moving" else world
        loss = scale.get(config["likelihood"], 1.0) * nll / config["draws"]
        loss = loss + config["zeta"] / config["kl_divisor"] * self.tie([mu, rho], prior)
        self.optimisers[0].zero_grad()
        loss.backward()
        self.optimisers[0].step()


def run(
    federation: Federation, mu: Tensor, rho: Tensor, config: dict[str, Any], rounds: int, batch: int, steps: int
) -> tuple[list[Tensor], list[PlainClient]]:
    """Rounds with all clients, averages in rho space; returns the server's Gaussian and the clients."""
    data, world = federation.data, [mu, rho]
    clients = [PlainClient(mu, rho, config) for _ in range(data.population)]
    for round_ in range(rounds):
        uploads = []
        for i, client in enumerate(clients):
            rows = data.train.rows[i, : data.train.sizes[i]]
            # The engine's first phase has number 1.
            key = rng.fold(federation.key("train"), round_, i, 1)
            uploads.append(client.visit(world, data.inputs[rows], data.labels[rows], batch, steps, key))
        sizes = data.train.sizes.double() if config["weighting"] == "samples" else torch.ones(len(clients)).double()
        shares = (sizes / sizes.sum()).tolist()
        world = [sum(p * u[k] for p, u in zip(shares, uploads, strict=True)) for k in range(2)]  # type: ignore[misc]
    return world, clients
