"""Fixtures of tests that spoil the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from config_copy import copy_config


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of `config/` that a test may spoil."""
    return copy_config(tmp_path)
