"""The recurrent network: the paper's size, and torch.nn.LSTM's numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from fedbayes.bayes.layers import plain
from fedbayes.models import load_network
from fedbayes.models.network import Network
from fedbayes.reading import ConfigError
from fedbayes.tensors import Params


def modules(params: Params, length: int, units: int, depth: int, classes: int) -> tuple[nn.LSTM, nn.Linear]:
    lstm, head = nn.LSTM(length, units, depth, batch_first=True), nn.Linear(units, classes)
    for i in range(depth):
        for ours, theirs in (("input", "ih"), ("hidden", "hh")):
            for kind in ("weight", "bias"):
                getattr(lstm, f"{kind}_{theirs}_l{i}").data = params[f"lstm{i}_{ours}.{kind}"]
    head.weight.data, head.bias.data = params["head.weight"], params["head.bias"]
    return lstm, head


def assert_agrees(
    network: Network, params: Params, x: Tensor, expected: Tensor, weights: dict[str, nn.Parameter]
) -> None:
    """The network's logits are those expected, and its gradients those of the modules they were made with."""
    torch.testing.assert_close(network.apply(plain(params), x), expected)
    found = torch.func.grad(lambda p: network.apply(plain(p), x).square().sum())(params)
    torch.autograd.backward(expected.square().sum())
    for name, weight in weights.items():
        torch.testing.assert_close(found[name], weight.grad)


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
    weights = {"lstm0_hidden.weight": lstm.weight_hh_l0, "lstm1_input.bias": lstm.bias_ih_l1}
    assert_agrees(network, params, x, head(lstm(x)[0][:, -1]), weights)


def test_with_learned_vectors_forward_and_gradient_equal_torch_nn() -> None:
    fields = {"hidden": 5, "depth": 2, "vocabulary": 20, "vector": 3}
    network = load_network("lstm", fields, (7,), 4)
    params = network.init(torch.Generator().manual_seed(1))
    assert network.kind == "recurrent" and network.layers[0] == "embedding" and network.layers[-1] == "head"
    assert params["embedding.weight"].shape == (20, 3) and next(iter(params)) == "embedding.weight"
    lstm, head = modules(params, 3, 5, 2, 4)
    table = nn.Embedding(20, 3)
    table.weight.data = params["embedding.weight"]
    tokens = torch.randint(20, (6, 7), generator=torch.Generator().manual_seed(2), dtype=torch.int32)
    weights = {"embedding.weight": table.weight, "lstm0_input.weight": lstm.weight_ih_l0}
    assert_agrees(network, params, tokens, head(lstm(table(tokens))[0][:, -1]), weights)


def test_learned_vectors_add_their_table_and_nothing_else() -> None:
    fields = {"hidden": 256, "depth": 2, "vocabulary": 1_000, "vector": 300}
    params = load_network("lstm", fields, (25,), 2).init(torch.Generator().manual_seed(0))
    assert sum(p.numel() for p in params.values()) == 300_000 + 1_097_728 + 514


@pytest.mark.parametrize("field", [{"vocabulary": 20}, {"vector": 3}])
def test_half_a_table_is_refused_in_one_sentence(field: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="vocabulary and vector belong together; found only one of them"):
        load_network("lstm", {"hidden": 5, "depth": 1} | field, (7,), 2)


@pytest.mark.parametrize(
    ("fields", "shape", "said"),
    [
        ({}, (7,), r"the samples are \(7,\); expected word vectors \(steps, length\), or the fields vocabulary"),
        ({"vocabulary": 9, "vector": 3}, (7, 3), r"the samples are \(7, 3\); expected tokens \(steps,\)"),
    ],
)
def test_inputs_of_the_other_kind_are_refused_in_one_sentence(
    fields: dict[str, int], shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_network("lstm", {"hidden": 5, "depth": 1} | fields, shape, 2)
