"""Runs that finish at once, publishers that are killed, servers that are away: everything is there once, and whole."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from mlflow_campaign import ME, PAPER

from artefacts import make_plan, write_run
from fedbayes.job import alone
from fedbayes.plan import Cell
from fedbayes.receipts import UnreachableError
from fedbayes.tracking import publish_runs, reach
from mlflow_server import MlflowServer, held

FORK = multiprocessing.get_context("fork")  # real processes, without importing MLflow anew in each
AT_ONCE = 16


def sixteen_runs() -> list[Cell]:
    """Four cells with four seeds each: runs that share a parent are the harder case."""
    wanted = [("table1", "mnist-small", "paper", method) for method in ("FedAvg", "FedProx", "pFedBayes", "Local")]
    cells = make_plan(seeds=[0, 1, 2, 3]).cells
    runs = [cell for cell in cells if (cell.experiment, cell.setting, cell.preset, cell.method) in wanted]
    assert len({cell.run.id for cell in runs}) == len(runs) == AT_ONCE
    return runs


CELLS = sixteen_runs()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for cell in CELLS:
        write_run(folder, cell.run)
    return folder


@pytest.fixture(scope="module")
def expected(results: Path, tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> dict[str, Any]:
    """What one undisturbed publisher leaves."""
    database = Path(shutil.copy(empty_store, tmp_path_factory.mktemp("expected") / "mlflow.db"))
    publish(f"sqlite:///{database}", PAPER.key, results)
    return checked(held(database, PAPER.key))


def checked(runs: dict[str, Any]) -> dict[str, Any]:
    assert len(runs) == AT_ONCE + 4, "sixteen seeds and their four parents"
    return runs


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path, empty_store: Path) -> tuple[str, Path]:
    """The address of a store, and its database."""
    if request.param == "file":
        database = Path(shutil.copy(empty_store, tmp_path / "mlflow.db"))
        return f"sqlite:///{database}", database
    server: MlflowServer = request.getfixturevalue("server")
    return server.uri, server.home / "mlflow.db"


def publish(uri: str, experiment: str, results: Path, cells: Sequence[Cell] = tuple(CELLS)) -> None:
    publish_runs(uri, ME, results, replace(PAPER, key=experiment), [cell.row() for cell in cells])


def publish_alone(uri: str, experiment: str, results: Path, lock: Path, cells: Sequence[Cell]) -> None:
    """As the workflow's scripts do it."""
    with alone(lock) as publisher:
        publish_runs(uri, publisher, results, replace(PAPER, key=experiment), [cell.row() for cell in cells])


def started(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = FORK.Process(target=work, args=arguments)
    process.start()
    return process


def finished(processes: Sequence[BaseProcess]) -> list[int | None]:
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def same(database: Path, experiment: str, expected: dict[str, Any]) -> bool:
    """Whether an experiment holds just what one undisturbed publisher leaves."""
    runs = checked(held(database, experiment))
    for name, content in expected.items():
        assert runs[name] == content, name
    return runs.keys() == expected.keys()


def test_sixteen_at_once(results: Path, tmp_path: Path, empty_store: Path, expected: dict[str, Any]) -> None:
    database = Path(shutil.copy(empty_store, tmp_path / "mlflow.db"))
    uri = f"sqlite:///{database}"
    work = [started(publish_alone, uri, "at-once", results, tmp_path / "lock", [cell]) for cell in CELLS]
    assert finished(work) == [0] * AT_ONCE
    assert same(database, "at-once", expected)


@pytest.mark.slow
def test_sixteen_at_once_from_two_folders(
    server: MlflowServer, results: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    locks = [tmp_path / folder / "lock" for folder in ("one", "two")]
    work = [started(publish_alone, server.uri, "two-folders", results, lock, [c]) for c in CELLS for lock in locks]
    assert finished(work) == [0] * 2 * AT_ONCE
    assert same(server.home / "mlflow.db", "two-folders", expected)


@pytest.mark.parametrize(
    ("call", "number"),
    [("log_batch", 1), ("log_batch", 8), ("log_inputs", 5), ("set_tag", 9)],
)
def test_a_publisher_killed_half_way(
    store: tuple[str, Path], results: Path, expected: dict[str, Any], call: str, number: int
) -> None:
    uri, database = store
    experiment = f"killed-{call}-{number}"

    def killed_at_a_call() -> None:
        real, calls = getattr(MlflowClient, call), iter(range(1, 1000))

        def counted(*arguments: Any, **more: Any) -> Any:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **more)

        setattr(MlflowClient, call, counted)
        publish(uri, experiment, results)

    assert finished([started(killed_at_a_call)]) == [-signal.SIGKILL]
    left = held(database, experiment)
    half = [name for name, (_, tags, *_) in left.items() if tags["fedbayes.digest"].startswith("writing")]
    assert len(half) == 1 and len(left) < AT_ONCE + 4
    publish(uri, experiment, results)
    assert same(database, experiment, expected)


def test_what_another_publisher_is_writing_is_left_alone_until_it_is_abandoned(
    store: tuple[str, Path], results: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, database = store
    publish(uri, "another", results)
    client = MlflowClient(uri)
    where = client.get_experiment_by_name("another").experiment_id
    run = next(r for r in client.search_runs([where]) if "seed" in r.data.tags)
    claim = run.data.tags | {"fedbayes.digest": f"writing another {time.time():.0f}"}
    theirs = client.create_run(where, tags=claim).info.run_id
    publish(uri, "another", results)
    assert client.get_run(theirs).info.lifecycle_stage == "active"
    monkeypatch.setattr("fedbayes.tracking.store.ABANDONED_SECONDS", -1)
    publish(uri, "another", results)
    assert client.get_run(theirs).info.lifecycle_stage == "deleted"
    assert same(database, "another", expected)


@pytest.mark.slow
def test_a_server_that_falls_silent_half_way_is_away_within_seconds(
    server: MlflowServer, results: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "ANSWER_SECONDS", 1)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    real = MlflowClient.log_inputs

    def silenced(*arguments: Any) -> None:
        server.send(signal.SIGSTOP)
        real(*arguments)

    before = time.monotonic()
    with monkeypatch.context() as patch, pytest.raises(UnreachableError, match="time"):
        patch.setattr(MlflowClient, "log_inputs", silenced)
        publish(server.uri, "silent", results)
    with pytest.raises(UnreachableError, match=r"no answer \(timed out\)"):
        publish(server.uri, "silent", results)
    assert time.monotonic() - before < 30
    server.send(signal.SIGCONT)
    monkeypatch.undo()
    publish(server.uri, "silent", results)
    assert same(server.home / "mlflow.db", "silent", expected)
