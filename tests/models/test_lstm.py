"""The recurrent network: the paper's size, and torch.nn.LSTM's numbers."""

from __future__ import annotations

import math

import torch
from torch import nn

from fedbayes.bayes.layers import plain
from fedbayes.models import load_network
from fedbayes.tensors import Params


def modules(params: Params, length: int, units: int, depth: int, classes: int) -> tuple[nn.LSTM, nn.Linear]:
    lstm, head = nn.LSTM(length, units, depth, batch_first=True), nn.Linear(units, classes)
    for i in range(depth):
        for ours, theirs in (("input", "ih"), ("hidden", "hh")):
            for kind in ("weight", "bias"):
                getattr(lstm, f"{kind}_{theirs}_l{i}").data = params[f"lstm{i}_{ours}.{kind}"]
    head.weight.data, head.bias.data = params["head.weight"], params["head.bias"]
    return lstm, head


def test_selffl_network_has_the_papers_number_of_weights() -> None:
    network = load_network("lstm", {"hidden": 256, "depth": 2}, (25, 300), 2)
    params = network.init(torch.Generator().manual_seed(0))
    assert sum(p.numel() for p in params.values()) == 1_097_728 + 514
    assert network.kind == "recurrent" and network.layers[-1] == "head"
    largest = max(float(p.abs().max()) for name, p in params.items() if name.startswith("lstm"))
    assert 0.999 / math.sqrt(256) < largest <= 1 / math.sqrt(256)


def test_forward_and_gradient_equal_torch_nn() -> None:
    network = load_network("lstm", {"hidden": 5, "depth": 2}, (7, 3), 4)
    params = network.init(torch.Generator().manual_seed(1))
    lstm, head = modules(params, 3, 5, 2, 4)
    x = torch.randn(6, 7, 3, generator=torch.Generator().manual_seed(2))
    expected = head(lstm(x)[0][:, -1])
    torch.testing.assert_close(network.apply(plain(params), x), expected)
    found = torch.func.grad(lambda p: network.apply(plain(p), x).square().sum())(params)
    torch.autograd.backward(expected.square().sum())
    torch.testing.assert_close(found["lstm0_hidden.weight"], lstm.weight_hh_l0.grad)
    torch.testing.assert_close(found["lstm1_input.bias"], lstm.bias_ih_l1.grad)
