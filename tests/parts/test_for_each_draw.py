"""Drawn networks side by side or one after the other: the same numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedbayes.autodiff import grad_and_value
from fedbayes.bayes.flat import flatten, layout_of, unflatten
from fedbayes.bayes.layers import plain
from fedbayes.models import cnn, mlp
from fedbayes.models.network import Network
from fedbayes.parts.draws import for_each_draw

SHAPE = (1, 6, 6)
CONV = cnn.build(cnn.Config(channels=(2,), pooled=(True,), hidden=(3,)), SHAPE, 2)
DENSE = mlp.build(mlp.Config(hidden=(3,)), SHAPE, 2)


@pytest.mark.parametrize("network", [CONV, DENSE], ids=["conv", "dense"])
def test_outputs_and_gradients_are_those_of_each_network_alone(network: Network) -> None:
    stream = torch.Generator().manual_seed(0)
    start = network.init(stream)
    layout = layout_of(start)
    noise = torch.randn(4, layout.size, generator=stream, dtype=torch.float64)
    weights = flatten(start).double() + noise / 10
    x = torch.randn(5, *SHAPE, generator=stream, dtype=torch.float64)
    y = torch.tensor([0, 1, 1, 0, 1])
    calls = []

    def loss(vector: Tensor) -> Tensor:
        calls.append(vector)
        return F.cross_entropy(network.apply(plain(unflatten(vector, layout)), x), y)

    grads, values = for_each_draw(grad_and_value(loss), weights, network)
    assert len(calls) == (4 if network is CONV else 1), "one after the other, or all at once"
    assert grads.shape == weights.shape and values.shape == (4,)
    for row, grad, value in zip(weights, grads, values, strict=True):
        at = row.clone().requires_grad_()
        alone = loss(at)
        torch.testing.assert_close(value, alone.detach())
        torch.testing.assert_close(grad, torch.autograd.grad(alone, at)[0])
