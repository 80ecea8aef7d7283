"""A new MLflow store for each test, from one that is made once; and a server that several tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow_campaign import Campaign

from fedbayes.tracking import open_store
from mlflow_server import MlflowServer


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store; made once, because MLflow takes seconds to make one."""
    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    open_store(f"sqlite:///{file}")
    return file


@pytest.fixture
def campaign(tmp_path: Path, empty_store: Path) -> Campaign:
    return Campaign(tmp_path, empty_store)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Campaign:
    """A campaign published once, to be looked at only."""
    return Campaign(tmp_path_factory.mktemp("published"), empty_store).publish().compare()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Iterator[MlflowServer]:
    """A real tracking server on a store of its own, up when a test gets it; each test has its own experiment in it."""
    home = tmp_path_factory.mktemp("server")
    shutil.copy(empty_store, home / "mlflow.db")
    running = MlflowServer(home)
    try:
        running.start()
        yield running
    finally:
        running.stop()
