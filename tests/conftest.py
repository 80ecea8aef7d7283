"""Fixtures every room's tests share."""

from __future__ import annotations

import pytest
import torch

import toy
from fedbayes.federation.loop import Federation


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two test processes share two cores; numbers must not depend on that."""
    torch.set_num_threads(1)


@pytest.fixture
def federation() -> Federation:
    """Three unequal clients with two features each, running FedAvg in float64."""
    return toy.federation()
