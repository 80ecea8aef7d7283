"""The network over sentences: the paper's size, an ordinary forward pass, clients side by side."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedbayes.bayes.layers import plain
from fedbayes.models import load_network
from fedbayes.models.textcnn import over_words
from fedbayes.reading import ConfigError
from side_by_side import assert_clients_agree

FEDUAB = {"vocabulary": 50_000, "vector": 16, "widths": (2, 3, 4), "channels": 10}
SMALL = {"vocabulary": 20, "vector": 3, "widths": (2, 4), "channels": 5}


def test_feduab_network_has_the_papers_number_of_weights() -> None:
    network = load_network("textcnn", FEDUAB, (600,), 10)
    params = network.init(torch.Generator().manual_seed(0))
    assert sum(p.numel() for p in params.values()) == 801_780
    assert network.layers == ("embedding", "conv2", "conv3", "conv4", "head") and network.kind == "conv"


def test_forward_equals_torch_nn() -> None:
    network = load_network("textcnn", SMALL, (7,), 4)
    params = network.init(torch.Generator().manual_seed(1))
    tokens = torch.randint(20, (6, 7), generator=torch.Generator().manual_seed(2))
    table = nn.Embedding(20, 3)
    convolutions, head = [nn.Conv2d(1, 5, (width, 3)) for width in (2, 4)], nn.Linear(10, 4)
    for name, module in zip(network.layers, (table, *convolutions, head), strict=True):
        module.load_state_dict({kind: params[f"{name}.{kind}"] for kind in module.state_dict()})
    maps = [F.leaky_relu(conv(table(tokens).unsqueeze(1)).squeeze(3), 0.01).max(2).values for conv in convolutions]
    torch.testing.assert_close(network.apply(plain(params), tokens), head(torch.cat(maps, 1)))


@pytest.mark.parametrize("width", [2, 3, 4])
def test_gradients_of_the_papers_convolutions_are_those_in_double_precision(width: int) -> None:
    # torch's own two-dimensional convolution fails this on some processors; see `over_words`.
    stream = torch.Generator().manual_seed(4)
    words = torch.randn(10, 40, 16, generator=stream, dtype=torch.float64)
    kernels = torch.randn(10, 1, width, 16, generator=stream, dtype=torch.float64)
    expected, found = (
        torch.func.grad(lambda k, x: over_words(x, k, None).square().sum())(kernels.to(kind), words.to(kind))
        for kind in (torch.float64, torch.float32)
    )
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-2)
    image = torch.func.grad(lambda k: F.conv2d(words.unsqueeze(1), k).square().sum())(kernels)
    torch.testing.assert_close(expected, image)


def test_clients_side_by_side_equal_one_at_a_time() -> None:
    network = load_network("textcnn", SMALL, (7,), 4)
    tokens = torch.randint(20, (3, 2, 7), generator=torch.Generator().manual_seed(3))
    assert_clients_agree(network, tokens)


def test_a_sentence_shorter_than_a_convolution_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match="widths: 4 words do not fit sentences of 3 tokens"):
        load_network("textcnn", SMALL, (3,), 4)
