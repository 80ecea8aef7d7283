"""Whether a store can be reached: asked before MLflow is, and told apart from every other error.

MLflow repeats an unanswered question for minutes, of an SQLite file as of a server; so the store is asked once,
quickly, before anything is published. It may still go away in the middle.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import requests
from mlflow.environment_variables import MLFLOW_TRACKING_INSECURE_TLS, MLFLOW_TRACKING_SERVER_CERT_PATH
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from fedbayes.reading import ConfigError, complain
from fedbayes.receipts import UnreachableError

ANSWER_SECONDS = 10
LOST = (requests.ConnectionError, requests.Timeout, requests.exceptions.RetryError)
CLOSING = "\"')"
# Requests calls it a lost connection; it stays lost until somebody changes something.
UNTRUSTED = requests.exceptions.SSLError


@contextmanager
def reaching(uri: str) -> Iterator[None]:
    """Make an `UnreachableError` of whatever says that the store is away, before the block or in it."""
    if uri.startswith(("http://", "https://")):
        _ask_server(uri)
    elif uri.startswith("sqlite:///"):
        _ask_file(uri)
    try:
        yield
    except (MlflowException, SQLAlchemyError, requests.RequestException) as error:
        if isinstance(error, UNTRUSTED) or isinstance(error.__cause__ or error.__context__, UNTRUSTED):
            raise unusable(uri, error) from error
        if not is_away(error):
            raise
        raise unreachable(uri, error) from error


def is_away(error: Exception) -> bool:
    """Whether an error means that nobody is there: no connection, a server in trouble, a locked or read-only file."""
    if isinstance(error, MlflowException) and error.error_code == "TEMPORARILY_UNAVAILABLE":
        return True
    if isinstance(error, requests.HTTPError):
        return error.response is not None and error.response.status_code >= 500
    # MLflow hides what a request died of behind an error that it also raises for bugs.
    return isinstance(error, (OperationalError, *LOST)) or isinstance(error.__cause__ or error.__context__, LOST)


def unreachable(uri: str, why: object) -> UnreachableError:
    """The store is away; why, in one line."""
    return UnreachableError(_without_secrets(f"the MLflow store {uri} cannot be reached: {_line(why)}"))


def unusable(uri: str, why: object) -> ConfigError:
    """The store is there or is none, and will not do until somebody changes something."""
    expected = "expected the address of an MLflow server or sqlite:///<file>"
    said = _without_secrets(f"the MLflow store {uri!r} cannot be used: {_line(why)}")
    return complain("MLFLOW_TRACKING_URI", "", f"{said}; {expected}")


def _without_secrets(text: str) -> str:
    """The same without user and password of the addresses in it: it goes to terminals, logs and receipts."""
    return re.sub(r"(?<=://)[^\s/]\S*@", "", text)


def _line(why: object) -> str:
    return (str(why).strip() or type(why).__name__).splitlines()[0]


def sqlite_file(uri: str) -> Path:
    """The file of an SQLite store."""
    return Path(uri.removeprefix("sqlite:///").split("?")[0])


def _ask_server(uri: str) -> None:
    # As MLflow itself would: a server may have a certificate of its own.
    certificate: str | None = MLFLOW_TRACKING_SERVER_CERT_PATH.get()  # type: ignore[no-untyped-call]
    insecure: bool = MLFLOW_TRACKING_INSECURE_TLS.get()  # type: ignore[no-untyped-call]
    try:
        answer = requests.get(uri.rstrip("/") + "/health", timeout=ANSWER_SECONDS, verify=certificate or not insecure)
    except UNTRUSTED as error:
        raise unusable(uri, error) from None
    except requests.Timeout:
        raise unreachable(uri, "no answer (timed out)") from None
    except requests.ConnectionError as error:
        # Its last words are the system's; before them stands which of Requests' objects could not do what.
        raise unreachable(uri, f"no answer ({_line(error).rpartition(': ')[2].rstrip(CLOSING)})") from None
    except (requests.RequestException, ValueError, OSError) as error:
        raise unusable(uri, error) from None
    if answer.status_code >= 500:  # a proxy whose server is down
        raise unreachable(uri, f"{answer.status_code} {answer.reason}")
    # Otherwise a server is there; whether it lets us in is seen next.


def _ask_file(uri: str) -> None:
    """Whether we may write to it now."""
    try:
        sqlite_file(uri).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(sqlite_file(uri), timeout=ANSWER_SECONDS, isolation_level=None)) as base:
            base.execute("BEGIN IMMEDIATE")
            base.execute("ROLLBACK")
    except (sqlite3.OperationalError, OSError) as error:
        raise unreachable(uri, error) from None
    except sqlite3.DatabaseError as error:
        raise unusable(uri, error) from None
