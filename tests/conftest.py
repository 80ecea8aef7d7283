"""Fixtures every room's tests share."""

from __future__ import annotations

import pytest
import torch

import toy
from fedbayes.federation.loop import Federation

# What takes longest comes first, so that two processes end at about the same time.
FIRST = ("tests/slurm", "tests/workflow", "tests/tracking")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files: tests are shared out by file, because a file's fixtures are made once in each process."""
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get("/".join(item.nodeid.split("/")[:2]), len(FIRST)))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two test processes share two cores; numbers must not depend on that."""
    torch.set_num_threads(1)


@pytest.fixture
def federation() -> Federation:
    """Three unequal clients with two features each, running FedAvg in float64."""
    return toy.federation()
