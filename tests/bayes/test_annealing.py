"""The weight of a KL term over rounds, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from fedbayes.bayes.annealing import Shape, cyclical


def weights(rounds: list[int], cycle: int | None, ramp: int, shape: Shape) -> list[float]:
    found: list[float] = cyclical(torch.tensor(rounds), cycle, ramp, shape, torch.float64).tolist()
    return found


def test_a_linear_ramp_stays_at_its_height_and_begins_anew() -> None:
    assert weights(list(range(9)), 6, 4, "linear") == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 0.0, 0.25, 0.5]


def test_a_cycle_shorter_than_its_ramp_never_reaches_the_height() -> None:
    assert weights([0, 1, 2, 3], 2, 4, "linear") == [0.0, 0.25, 0.0, 0.25]


def test_one_cycle_never_ends() -> None:
    assert weights([0, 2, 4, 5, 1000, 10**6], None, 4, "linear") == [0.0, 0.5, 1.0, 1.0, 1.0, 1.0]


def test_a_sigmoid_ramp() -> None:
    expected = [1 / (1 + math.exp(6)), 1 / (1 + math.exp(3)), 0.5, 1 / (1 + math.exp(-6)), 1.0]
    assert weights([0, 5, 10, 20, 21], None, 20, "sigmoid") == pytest.approx(expected, abs=1e-15)
