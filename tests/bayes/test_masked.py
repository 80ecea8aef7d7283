"""Masks of low rank: the mask itself and the sum over ranks give the same layer."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from fedbayes.bayes.layers import LowRank, by_rank, cheaper_by_rank, masked, plain
from fedbayes.models import load_network
from fedbayes.models.embedding import look_up
from fedbayes.models.textcnn import over_words

CASES: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "linear": (F.linear, (7, 4), (3, 4)),
    "linear over steps": (F.linear, (7, 2, 4), (3, 4)),
    "conv": (partial(F.conv2d, padding=1), (7, 4, 5, 5), (3, 4, 3, 3)),
    "words": (over_words, (7, 6, 4), (3, 1, 2, 4)),
}


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rank", [1, 3])
def test_rank_by_rank_is_the_masked_layer(case: str, rank: int) -> None:
    torch.manual_seed(0)
    op, inputs, shape = CASES[case]
    x, weight, bias = drawn(*inputs), drawn(*shape), drawn(3)
    mask = LowRank(drawn(shape[0], rank), drawn(shape[1], rank))
    full = torch.einsum("or,ir->oi", *mask).reshape(*shape[:2], *[1] * (len(shape) - 2))
    expected = op(x, weight * full, bias)
    torch.testing.assert_close(by_rank(op, x, weight, bias, mask), expected)
    torch.testing.assert_close(masked({"a.weight": weight, "a.bias": bias}, {"a": mask})("a", op, x), expected)


def test_word_vectors_are_masked_as_a_table() -> None:
    torch.manual_seed(0)
    table, mask = drawn(6, 2), LowRank(drawn(6, 2), drawn(2, 2))
    found = masked({"a.weight": table}, {"a": mask})("a", look_up, torch.tensor([[1, 1, 4]]))
    torch.testing.assert_close(found[0], (table * (mask.left @ mask.right.T))[[1, 1, 4]])


@pytest.mark.parametrize(
    ("inputs", "rank", "shape", "cheaper"),
    [
        ((32, 400), 1, (500, 400), True),  # 32 (200,000 + 900) = 6,428,800 against 200,000 (1 + 1 + 32) = 6,800,000
        ((32, 4), 1, (3, 4), False),  # 32 (12 + 7) = 608 against 12 (1 + 1 + 32) = 408
        ((1, 400), 8, (500, 400), True),  # 8 (200,000 + 900) = 1,607,200 against 200,000 (8 + 1 + 1) = 2,000,000
        ((32, 400), 8, (500, 400), False),  # 51,430,400 against 200,000 (8 + 1 + 32) = 8,200,000
        ((2, 64, 2, 2), 1, (64, 64, 3, 3), True),  # 8 (36,864 + 128) = 295,936 against 4,096 (1 + 9 + 72) = 335,872
        ((2, 64, 9, 9), 1, (64, 64, 3, 3), True),  # 5,992,704 against 4,096 (1 + 9 + 9 * 162) = 6,012,928
        ((32, 64, 9, 9), 1, (64, 64, 3, 3), False),  # 95,883,264 against 4,096 (1 + 9 + 9 * 2,592) = 95,592,448
        ((3, 6, 4), 2, (5, 1, 2, 4), False),  # 18 places: 36 (5 * 8 + 6) = 1,656 against 10 + 40 * 19 = 770
    ],
)
def test_the_cheaper_way_is_counted_in_multiplications(
    inputs: tuple[int, ...], rank: int, shape: tuple[int, ...], cheaper: bool
) -> None:
    mask = LowRank(torch.zeros(shape[0], rank), torch.zeros(shape[1], rank))
    assert cheaper_by_rank(torch.zeros(inputs), torch.zeros(shape), mask) is cheaper


def test_a_mask_of_ones_is_the_plain_network() -> None:
    network = load_network("cnn", {"channels": (2,), "pooled": (True,), "hidden": (3,)}, (1, 6, 6), 4)
    weights = network.init(torch.Generator().manual_seed(0))
    ones = {layer: LowRank(*(torch.full((n, 4), 0.5) for n in weights[f"{layer}.weight"].shape[:2]))
            for layer in network.layers}  # fmt: skip
    x = torch.randn(5, 1, 6, 6)
    torch.testing.assert_close(network.apply(masked(weights, ones), x), network.apply(plain(weights), x))
