"""A store that is away is told apart from a store that will not do, and both from a mistake of ours."""

from __future__ import annotations

import shutil
import sqlite3
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE
from mlflow.tracking import MlflowClient
from mlflow_campaign import CELLS, ME, PAPER, Campaign
from urllib3.exceptions import InsecureRequestWarning

from fedbayes.io import ROUNDS_COLUMNS, write_rows
from fedbayes.reading import ConfigError
from fedbayes.receipts import UnreachableError
from fedbayes.tracking import open_store, publish_runs, reach
from mlflow_server import free_port


def test_nobody_at_the_address_is_found_out_at_once(campaign: Campaign) -> None:
    campaign.uri = f"http://127.0.0.1:{free_port()}"
    before = time.monotonic()
    for publishing in (lambda: open_store(campaign.uri), campaign.publish, campaign.compare):
        with pytest.raises(UnreachableError, match=f"{campaign.uri} cannot be reached: no answer .*refused") as error:
            publishing()
        assert "\n" not in str(error.value)
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("told", [reach.unreachable, reach.unusable])
@pytest.mark.parametrize("secret", ["me:pass@", "me:p@ss/word@", "token@"])
def test_a_password_in_the_address_is_not_told(told: Callable[[str, object], Exception], secret: str) -> None:
    uri = f"https://{secret}store.org:5000/path"
    said = str(told(uri, f"{uri}/health refused"))
    assert "https://store.org:5000/path" in said and "https://store.org:5000/path/health refused" in said
    assert secret not in said and "pass" not in said
    assert "sqlite:///home/me@work/mlflow.db" in str(told("sqlite:///home/me@work/mlflow.db", "why"))


@pytest.mark.parametrize(("answer", "error"), [(503, UnreachableError), (401, ConfigError), (404, ConfigError)])
def test_a_proxy_without_its_server_is_away_and_a_refusal_is_not(answer: int, error: type[Exception]) -> None:
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(answer)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    proxy = HTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    with pytest.raises(error, match=f"{answer}"):
        open_store(f"http://127.0.0.1:{proxy.server_port}")
    proxy.shutdown()
    proxy.server_close()


def test_a_locked_file_is_away_and_gets_everything_later(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "ANSWER_SECONDS", 0.1)
    holder = sqlite3.connect(campaign.database, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    before = time.monotonic()
    with pytest.raises(UnreachableError, match="database is locked"):
        campaign.publish()
    assert time.monotonic() - before < 3
    holder.execute("ROLLBACK")
    holder.close()
    later = campaign.publish().content()
    campaign.new_store()
    assert campaign.publish().content() == later


def test_a_file_locked_half_way_is_away_and_is_completed_later(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        # What MLflow makes of a locked file, after waiting for twenty seconds.
        raise MlflowException("(sqlite3.OperationalError) database is locked", TEMPORARILY_UNAVAILABLE)

    with monkeypatch.context() as patch, pytest.raises(UnreachableError, match="database is locked"):
        patch.setattr(MlflowClient, "set_terminated", locked)
        campaign.publish()
    later = campaign.publish().content()
    campaign.new_store()
    assert campaign.publish().content() == later


def test_a_file_that_cannot_be_written_is_away(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "mlflow.db"):
        with pytest.raises(UnreachableError, match=str(place)):
            open_store(f"sqlite:///{place}")


def test_a_file_that_is_no_database_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("results of last week\n" * 100)
    with pytest.raises(ConfigError, match="cannot be used: file is not a database"):
        open_store(f"sqlite:///{tmp_path / 'mlflow.db'}")


def test_artifacts_that_cannot_be_stored_are_away(campaign: Campaign) -> None:
    (campaign.folder / "mlruns").write_text("in the way")
    with pytest.raises(UnreachableError, match="mlruns"):
        campaign.publish()
    (campaign.folder / "mlruns").unlink()
    assert len(campaign.publish().content()) == 3


def test_a_mistake_of_ours_stays_an_error(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        publish_runs(campaign.uri, ME, campaign.folder, PAPER, [CELLS[0].row() | {"folder": "nowhere"}])

    def wrong(*_: object) -> None:
        raise TypeError("a mistake of ours")

    with monkeypatch.context() as patch, pytest.raises(TypeError, match="a mistake of ours"):
        patch.setattr(MlflowClient, "log_inputs", wrong)
        campaign.publish()
    rounds = campaign.folder / CELLS[0].run.folder / "rounds.parquet"
    write_rows(rounds, ROUNDS_COLUMNS, [(0, "gm", "clean", "pooled", "is it good?", 0.25)])
    with pytest.raises(MlflowException, match="is it good"):
        campaign.publish()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the command openssl")
def test_a_certificate_that_nobody_vouches_for_is_a_mistake_until_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question whether a server is there trusts what MLflow trusts; untrusted is not the same as away."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip

    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Healthy)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    uri = f"https://localhost:{server.server_port}"
    with pytest.raises(ConfigError, match=r"cannot be used: .*CERTIFICATE_VERIFY_FAILED"):
        reach._ask_server(uri)
    monkeypatch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", str(certificate))
    reach._ask_server(uri)
    monkeypatch.delenv("MLFLOW_TRACKING_SERVER_CERT_PATH")
    monkeypatch.setenv("MLFLOW_TRACKING_INSECURE_TLS", "true")
    with pytest.warns(InsecureRequestWarning):
        reach._ask_server(uri)
    server.shutdown()
    server.server_close()
