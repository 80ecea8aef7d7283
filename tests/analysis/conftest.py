"""Campaigns the tests of this room share."""

from __future__ import annotations

import pytest

from campaign import Campaign, make_campaign


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """One seed on the embedded stand-in."""
    return make_campaign(tmp_path_factory.mktemp("smoke"), "smoke")


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Scale paper: three seeds on MNIST, unstratified and stratified."""
    return make_campaign(tmp_path_factory.mktemp("full"), "paper")
