"""Campaigns the tests of this room share."""

from __future__ import annotations

import pytest

from campaign import Campaign, add_cells, diverge, make_campaign


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """One seed on the embedded stand-in."""
    return make_campaign(tmp_path_factory.mktemp("smoke"), "smoke")


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Scale paper: three seeds on MNIST, unstratified and stratified."""
    return make_campaign(tmp_path_factory.mktemp("full"), "paper")


@pytest.fixture(scope="session")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Scale paper: two of the first setting's three seeds diverged."""
    campaign = make_campaign(tmp_path_factory.mktemp("diverged"), "paper")
    at = {seed: {"diverged": {"round": r, "reason": "the training loss is nan"}} for seed, r in ((1, 12), (2, 40))}
    diverge(campaign, at)
    return campaign


@pytest.fixture(scope="session")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Smoke, with a method of the user's own beside the paper's."""
    campaign = make_campaign(tmp_path_factory.mktemp("extended"), "smoke")
    add_cells(campaign, method="FedMine")
    return campaign
