"""The hypernetwork against torch.nn, and the moments of its first weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fedbayes.parts.hypernetwork import answer, start


def test_it_is_a_perceptron_on_a_client_s_row() -> None:
    hyper = start(torch.Generator().manual_seed(0), 9, (5, 5, 7), 1.0, torch.float64)
    assert hyper.embeddings.shape == (9, 3), "1 + 9 / 4, rounded down"
    table = nn.Embedding.from_pretrained(hyper.embeddings)
    layers: list[nn.Module] = []
    for number in range(3):
        weight = hyper.layers[f"{number}.weight"]
        linear = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(weight)
            linear.bias.copy_(hyper.layers[f"{number}.bias"])
        layers += [linear, nn.LeakyReLU(0.1)]
    plain = nn.Sequential(*layers[:-1])
    for client in range(9):
        found = answer(hyper, torch.tensor(client))
        torch.testing.assert_close(found, plain(table(torch.tensor(client))).detach(), rtol=0, atol=1e-12)


def test_its_first_weights_have_xavier_s_variance() -> None:
    hyper = start(torch.Generator().manual_seed(1), 400, (200, 300), 0.5, torch.float32)
    # A variance of n numbers is off by three times sqrt(2 / n) in one of 370 draws; the draws are fixed.
    for tensor, std in (
        (hyper.embeddings, 0.5),
        (hyper.layers["0.weight"], math.sqrt(2 / (101 + 200))),
        (hyper.layers["1.weight"], math.sqrt(2 / 500)),
        (hyper.layers["1.bias"], 1e-3),
    ):
        assert tensor.dtype == torch.float32
        assert float(tensor.double().var()) == pytest.approx(std**2, rel=3 * math.sqrt(2 / tensor.numel()))
    assert not start(torch.Generator().manual_seed(1), 8, (2,), 0.0, torch.float32).embeddings.any()
