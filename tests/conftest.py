"""Fixtures every room's tests share."""

from __future__ import annotations

import pytest
import torch
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import toy
from fedbayes.federation.loop import Federation

# What takes longest comes first, so that all processes end at about the same time.
FIRST = (
    "tests/slurm/",
    "tests/workflow/test_papers.py",
    "tests/workflow/",
    "tests/tracking/",
    "tests/methods/test_selffl_table.py",
    "tests/analysis/test_latex.py",
)
# Tests of minutes that share no fixture: one process need not take all of such a file.
APART = ("tests/workflow/test_papers.py", "tests/methods/test_selffl_table.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files by how long they take."""
    items.sort(key=lambda item: next((n for n, name in enumerate(FIRST) if item.nodeid.startswith(name)), len(FIRST)))


class ByFile(LoadScopeScheduling):
    """Shares tests out by file, because a file's fixtures are made once in each process, and there is one cluster.

    pytest-xdist's own way to say so, `--dist loadgroup`, does nothing with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return nodeid if file in APART else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Whatever `--dist` says."""
    return ByFile(config, log)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two test processes share two cores; numbers must not depend on that."""
    torch.set_num_threads(1)


@pytest.fixture
def federation() -> Federation:
    """Three unequal clients with two features each, running FedAvg in float64."""
    return toy.federation()
