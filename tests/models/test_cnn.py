"""The convolutional network: the paper's size, torch's initial values, an ordinary forward pass."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from fedbayes.bayes.layers import plain
from fedbayes.models import load_network
from fedbayes.reading import ConfigError
from fedbayes.tensors import Params
from side_by_side import assert_clients_agree

FEDUAB = {"channels": (32, 32, 32), "pooled": (True, True, False), "hidden": (64,)}


def module(params: Params, side: int) -> nn.Sequential:
    """The same network as modules, written out for three convolutions and one hidden layer."""
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * side * side, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    places = {0: "conv0", 3: "conv1", 6: "conv2", 9: "hidden0", 11: "head"}
    net.load_state_dict(
        {f"{i}.{kind}": params[f"{name}.{kind}"] for i, name in places.items() for kind in ("weight", "bias")}
    )
    return net


LENET = {"channels": (6, 16), "kernel": 5, "hidden": (120, 84)}
VGG = {"channels": (16, 32, 64, 128, 128), "padding": 1, "pooled": (True,) * 5}
LRBPFL = {"channels": (32, 64, 128), "padding": 1, "pooled": (True,) * 3, "hidden": (512, 256)}


@pytest.mark.parametrize(
    ("fields", "classes", "weights"),
    [
        (FEDUAB, 10, 52_874),
        (LRBPFL, 10, 1_276_234),
        (LRBPFL, 100, 1_299_364),
        (LENET | {"pooled": (True, True)}, 10, 62_006),
        (LENET | {"pooled": (True, False)}, 10, 206_006),
        (LENET | {"channels": (64, 64), "hidden": (120, 64), "pooled": (True, True)}, 10, 307_842),
        (VGG | {"hidden": (512, 512)}, 10, 578_858),
        (VGG | {"hidden": ()}, 10, 246_314),
    ],
)
def test_the_papers_networks_have_the_papers_numbers_of_weights(
    fields: dict[str, Any], classes: int, weights: int
) -> None:
    assert_has_weights(fields, (3, 32, 32), classes, weights)


def test_the_wake_word_net_has_its_number_of_weights() -> None:
    fields = {"channels": (16, 32), "padding": 1, "pooled": (True, True), "hidden": (32,)}
    assert_has_weights(fields, (1, 40, 61), 2, 158_498)


def assert_has_weights(fields: dict[str, Any], shape: tuple[int, ...], classes: int, weights: int) -> None:
    network = load_network("cnn", fields, shape, classes)
    params = network.init(torch.Generator().manual_seed(0))
    assert sum(p.numel() for p in params.values()) == weights
    logits = network.apply(plain(params), torch.zeros(2, *shape))
    assert logits.shape == (2, classes) and network.kind == "conv" and network.layers[-1] == "head"
    assert list(params) == [f"{name}.{kind}" for name in network.layers for kind in ("weight", "bias")]


def test_kernel_padding_and_pooling_equal_torch_nn() -> None:
    network = load_network("cnn", LENET | {"padding": 1, "pooled": (False, True)}, (3, 12, 14), 10)
    params = network.init(torch.Generator().manual_seed(1))
    net = nn.Sequential(
        nn.Conv2d(3, 6, 5, padding=1), nn.ReLU(), nn.Conv2d(6, 16, 5, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 4 * 5, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    net.load_state_dict(dict(zip(net.state_dict(), params.values(), strict=True)))
    x = torch.randn(5, 3, 12, 14, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(network.apply(plain(params), x), net(x))


def test_pooling_is_said_for_every_convolution() -> None:
    with pytest.raises(ConfigError, match="pooled: found 1 values for 2 convolutions; expected one each"):
        load_network("cnn", LENET | {"pooled": (True,)}, (3, 32, 32), 10)


def test_initial_weights_fill_the_interval_of_torch_nn() -> None:
    params = load_network("cnn", FEDUAB, (3, 32, 32), 10).init(torch.Generator().manual_seed(0))
    for name, fan_in in (("conv0", 27), ("conv1", 288), ("hidden0", 512)):
        bound, weight = 1 / math.sqrt(fan_in), params[f"{name}.weight"]
        assert float(weight.abs().max()) <= bound < 1.02 * float(weight.abs().max())
        # Uniform: variance bound^2 / 3; the relative error of 864 draws is 3 %, so 15 % is five of them.
        assert abs(float(weight.var()) / (bound**2 / 3) - 1) < 0.15


@pytest.mark.parametrize(("size", "side"), [(32, 4), (37, 5)])
def test_forward_and_gradient_equal_torch_nn(size: int, side: int) -> None:
    network = load_network("cnn", FEDUAB, (3, size, size), 10)
    params = network.init(torch.Generator().manual_seed(1))
    net, x = module(params, side), torch.randn(5, 3, size, size, generator=torch.Generator().manual_seed(2))
    expected = net(x)
    torch.testing.assert_close(network.apply(plain(params), x), expected)
    found = torch.func.grad(lambda p: network.apply(plain(p), x).square().sum())(params)
    expected.square().sum().backward()
    torch.testing.assert_close(found["conv0.weight"], net[0].weight.grad, rtol=1e-4, atol=1e-4)


def test_clients_side_by_side_equal_one_at_a_time() -> None:
    network = load_network("cnn", {"channels": (4, 5), "pooled": (True, False), "hidden": ()}, (1, 10, 12), 3)
    x = torch.randn(3, 2, 1, 10, 12, generator=torch.Generator().manual_seed(3))
    assert_clients_agree(network, x)


def test_too_many_convolutions_are_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match="4 convolutions do not fit images 28 pixels wide"):
        load_network("cnn", {"channels": (8, 8, 8, 8), "pooled": (True,) * 4, "hidden": ()}, (1, 28, 28), 10)
