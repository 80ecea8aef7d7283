"""Fixtures every room's tests share."""

from __future__ import annotations

import pytest
import torch

import toy
from fedbayes.federation.loop import Federation

# What takes longest comes first, so that all processes end at about the same time.
FIRST = ("tests/slurm/", "tests/workflow/test_papers.py", "tests/workflow/", "tests/tracking/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files and share tests out by file, because a file's fixtures are made once in each process.

    What carries the mark `apart` shares no fixture and takes minutes: one process need not take all of its file.
    """
    items.sort(key=lambda item: next((n for n, name in enumerate(FIRST) if item.nodeid.startswith(name)), len(FIRST)))
    for item in items:
        own = item.get_closest_marker("apart") is not None
        item.add_marker(pytest.mark.xdist_group(item.nodeid if own else item.nodeid.split("::")[0]))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two test processes share two cores; numbers must not depend on that."""
    torch.set_num_threads(1)


@pytest.fixture
def federation() -> Federation:
    """Three unequal clients with two features each, running FedAvg in float64."""
    return toy.federation()
