"""Stores: what cannot be used is said in one sentence, a server gets what a file gets."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow_campaign import PAPER, PARENT, REPORT, SEED0, SEED1, Campaign

from fedbayes.reading import ConfigError
from fedbayes.tracking import open_store
from fedbayes.tracking.store import Shelf


@pytest.fixture
def server(tmp_path: Path, empty_store: Path) -> Iterator[str]:
    """A real tracking server on a store of its own."""
    home = tmp_path / "server"
    home.mkdir()
    shutil.copy(empty_store, home / "mlflow.db")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    process = subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    uri = f"http://127.0.0.1:{port}"
    try:
        _wait_for(uri)
        yield uri
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(uri: str) -> None:
    for _ in range(240):
        try:
            urllib.request.urlopen(uri + "/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(uri)


@pytest.mark.parametrize(
    ("uri", "why"),
    [("http://127.0.0.1:9", "no answer"), ("./mlruns", "it is a folder"), ("file:///tmp/x", "it is a folder")],
)
def test_a_store_that_cannot_be_used_is_one_sentence(uri: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_store(uri)
    assert uri in str(error.value) and why in str(error.value) and "\n" not in str(error.value)


def test_many_runs_come_in_several_pages(published: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(published.uri, PAPER)
    search = shelf.client.search_runs
    monkeypatch.setattr(shelf.client, "search_runs", lambda *args, **more: search(*args, max_results=1, **more))
    assert {run.info.run_name for run in shelf.runs("scale", "smoke")} == {PARENT, SEED0, SEED1, REPORT}


@pytest.mark.slow
def test_a_server_gets_the_same_as_a_file(campaign: Campaign, server: str) -> None:
    by_file = campaign.publish().compare().content()
    campaign.uri = server
    open_store(server)
    assert campaign.publish().compare().content() == by_file
    assert campaign.publish().compare().content() == by_file
