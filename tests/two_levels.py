"""Self-FL's synthetic experiments: the scalar two-level Gaussian, all repeats as federations side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedbayes.data.two_level_gaussian import CASES, CLIENTS, SAMPLE_VARIANCE, THETA_0, generate
from fedbayes.federation.contract import Feed
from fedbayes.federation.lifting import Lifting
from fedbayes.federation.loop import Federation
from fedbayes.federation.resident import lay_out
from fedbayes.methods import load_method
from fedbayes.models import load_network

STEPS = 50  # of the baselines [A]
LR = 1e-4


class Truth(NamedTuple):
    """What is true and what the data say, each [repeat, client]."""

    theta: Tensor
    local: Tensor  # theta_m^(L), the mean of a client's samples
    sizes: Tensor


def federate(
    method: str, fields: dict[str, Any], case: int, repeats: int, active: int, theta_start: float = 0.0
) -> tuple[Federation, Truth]:
    """The experiments of one case with `active` of 20 clients a round, and what their results are held against."""
    raw = generate(case, repeats)
    users = raw.tables["users"]
    ends = np.cumsum(np.bincount(users))[:-1]
    own = np.split(np.arange(len(users)), ends)
    network = load_network("gaussian_mean", {"sample_variance": SAMPLE_VARIANCE, "start": theta_start}, (1,), 1)
    data = lay_out(raw.inputs, raw.labels, own, [rows[:1] for rows in own], 1, lambda x: x, torch.device("cpu"))
    federation = Federation(
        method=load_method(method, fields, network),
        data=data,
        feed=Feed(batch=1, amount=STEPS, order="full"),
        seed=0,
        clients_per_round=active,
        trains="selected",
        lifting=Lifting("vmap"),
        replicates=repeats,
    )
    shape = (repeats, CLIENTS)
    means = np.array([raw.inputs[rows].mean() for rows in own]).reshape(shape)
    # Doubles: dividing by whole numbers would give float32.
    sizes = torch.from_numpy(np.bincount(users).reshape(shape)).double()
    return federation, Truth(torch.from_numpy(raw.tables["theta"]).view(shape), torch.from_numpy(means), sizes)


__all__ = ["CASES", "CLIENTS", "LR", "SAMPLE_VARIANCE", "STEPS", "THETA_0", "Truth", "federate"]
