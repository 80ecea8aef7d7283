"""Stores: what cannot be used is said in one sentence, a server gets what a file gets."""

from __future__ import annotations

import pytest
from mlflow_campaign import ME, PAPER, PARENT, REPORT, SEED0, SEED1, Campaign

from fedbayes.reading import ConfigError
from fedbayes.tracking import open_store
from fedbayes.tracking.store import Shelf
from mlflow_server import MlflowServer


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("http://127.0.0.1:port", "not a valid host or port"),
        ("./mlruns", "it is a folder"),
        ("file:///tmp/x", "it is a folder"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_sentence(uri: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_store(uri)
    assert uri in str(error.value) and why in str(error.value) and "\n" not in str(error.value)


def test_many_runs_come_in_several_pages(published: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(published.uri, ME, PAPER)
    search = shelf.client.search_runs
    monkeypatch.setattr(shelf.client, "search_runs", lambda *args, **more: search(*args, max_results=1, **more))
    assert {run.info.run_name for run in shelf.runs("scale", "smoke")} == {PARENT, SEED0, SEED1, REPORT}


@pytest.mark.slow
def test_a_server_gets_the_same_as_a_file(campaign: Campaign, server: MlflowServer) -> None:
    by_file = campaign.publish().compare().content()
    campaign.uri = server.uri
    open_store(server.uri)
    assert campaign.publish().compare().content() == by_file
    assert campaign.publish().compare().content() == by_file
