"""A new MLflow store for each test, from one that is made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow_campaign import Campaign

from fedbayes.tracking import open_store


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
