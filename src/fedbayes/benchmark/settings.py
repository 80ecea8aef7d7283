"""What is measured: the lines of the benchmark and the arithmetic each needs."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch

CLASSES = 10
SHAPES = {"mlp": (1, 28, 28), "cnn": (3, 32, 32)}
NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"hidden": (100,)},
    "cnn": {"channels": (32, 32, 32), "pooled": (True, True, False), "hidden": (64,)},
}
# Multiplications of each layer for one sample, input side first.
PRODUCTS = {"mlp": (784 * 100, 1000), "cnn": (900 * 32 * 27, 169 * 32 * 288, 16 * 32 * 288, 512 * 64, 640)}

FEDAVG: dict[str, Any] = {"lr": 0.01, "momentum": 0.0, "weighting": "samples"}
# The preset `reference` of config/methods/pfedbayes.yaml; a test compares.
PFEDBAYES: dict[str, Any] = {
    "lr_personal": 0.001, "lr_global": 0.001, "zeta": 10.0, "kl_divisor": 20.0, "global_kl": "weighted",
    "likelihood": "batch", "noise_std": 0.001, "draws": 1, "inner_steps": 5, "optimiser": "adam",
    "personal_start": "persistent", "prior": "moving", "average": "rho", "weighting": "samples", "server_step": 1.0,
    "initial_mu_std": 0.1, "initial_rho": -3.0, "test_draws": 1,
}  # fmt: skip


class Setting(NamedTuple):
    """One line of the benchmark."""

    title: str
    work: Literal["fedavg", "pfedbayes", "evaluation"]
    network: Literal["mlp", "cnn"]
    clients: int
    batch: int
    steps: int  # batches a client takes in a round
    rounds: int = 1  # in one timed repeat
    samples: int = 1000  # of each client
    chunk: int | None = None
    compiled: bool = True
    dtype: torch.dtype = torch.float32

    @property
    def client_steps(self) -> int:
        """Batches all clients take in one repeat (for pFedBayes, each with its 5 + 1 optimiser steps)."""
        return self.clients * self.steps * self.rounds

    @property
    def flops(self) -> float:
        """Floating-point operations of the matrix products and convolutions in one repeat."""
        layers = PRODUCTS[self.network]
        forward = 2 * self.batch * sum(layers)
        # Backwards every layer has two more products, except the first, whose inputs need no gradient.
        step = 3 * forward - 2 * self.batch * layers[0]
        cost = {"fedavg": step, "pfedbayes": PFEDBAYES["inner_steps"] * step, "evaluation": forward}
        return float(cost[self.work]) * self.client_steps


JOBS: dict[str, tuple[Setting, ...]] = {
    "a": (Setting("FedAvg, MLP, batch 100", "fedavg", "mlp", 10, 100, 20, rounds=5),),
    "b": (Setting("FedAvg, MLP, batch 10", "fedavg", "mlp", 10, 10, 20, rounds=10),),
    "c": (Setting("pFedBayes reference, MLP, batch 100", "pfedbayes", "mlp", 10, 100, 20),),
    "d": (
        Setting("FedAvg, CNN, batch 10", "fedavg", "cnn", 10, 10, 5, rounds=4, samples=250),
        Setting("FedAvg, CNN, batch 50", "fedavg", "cnn", 10, 50, 5, samples=250),
    ),
    "e": (Setting("evaluation of 100 personal MLPs", "evaluation", "mlp", 100, 500, 1, rounds=3, samples=500),),
    "f": tuple(
        Setting(f"FedAvg, MLP, batch 20, {n} clients", "fedavg", "mlp", n, 20, 5, 1000 // n, 100, chunk=100)
        for n in (10, 100, 1000)
    ),
}
