"""The perceptron: the paper's size, torch's initial values, an ordinary forward pass."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fedbayes.bayes.layers import plain
from fedbayes.models import load_network


@pytest.mark.parametrize(
    ("hidden", "weights"),
    [((100,), 79_510), ((50, 50), 42_310), ((), 7_850)],
    ids=["pFedBayes and BPFed", "FedUAB", "Self-FL: logistic regression"],
)
def test_the_papers_networks_have_the_papers_numbers_of_weights(hidden: tuple[int, ...], weights: int) -> None:
    network = load_network("mlp", {"hidden": hidden}, (1, 28, 28), 10)
    params = network.init(torch.Generator().manual_seed(0))
    assert sum(p.numel() for p in params.values()) == weights
    assert len(network.layers) == len(hidden) + 1 and network.layers[-1] == "head"


def test_initial_weights_fill_the_interval_of_torch_nn_linear() -> None:
    params = load_network("mlp", {"hidden": (100,)}, (1, 28, 28), 10).init(torch.Generator().manual_seed(0))
    for name, fan_in in (("hidden0", 784), ("head", 100)):
        bound = 1 / math.sqrt(fan_in)
        weight = params[f"{name}.weight"]
        assert float(weight.abs().max()) <= bound < 1.02 * float(weight.abs().max())
        # Uniform: variance bound^2 / 3; the relative error of 1,000 draws is 2.8 %, so 15 % is five of them.
        assert abs(float(weight.var()) / (bound**2 / 3) - 1) < 0.15


def test_forward_equals_torch_nn() -> None:
    network = load_network("mlp", {"hidden": (6, 4)}, (1, 2, 3), 3)
    params = network.init(torch.Generator().manual_seed(1))
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    module.load_state_dict(
        {
            f"{i}.{kind}": params[f"{name}.{kind}"]
            for i, name in ((1, "hidden0"), (3, "hidden1"), (5, "head"))
            for kind in ("weight", "bias")
        }
    )
    x = torch.randn(5, 1, 2, 3)
    torch.testing.assert_close(network.apply(plain(params), x), module(x))
