"""Publishing as a user meets it: an MLflow server that is down fails nothing, and gets what it missed when it is up."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from artefacts import make_plan, write_campaign
from checkout import command, copy_project, planned, snakemake
from fedbayes.tracking_uri import store_name
from mlflow_server import MlflowServer, held

PART = {"scale": "reduced", "experiments": ["table1-pfedgp"], "seeds": [0]}
CONFIG = ["--config", "scale=reduced", "experiments=[table1-pfedgp]", "seeds=[0]"]
# What comes before publishing is written by hand, so that nothing but publishing can run.
ONLY = ["--allowed-rules", "all", "store", "track", "track_means"]
PLAN = make_plan(**PART)
REPORT = "results/reduced/report/index.html"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MlflowServer]:
    (tmp_path / "server").mkdir()
    server = MlflowServer(tmp_path / "server")
    yield server
    server.stop()


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A project with two trained runs, a comparison and a report, of which nothing has been published."""
    folder = copy_project(tmp_path / "project")
    write_campaign(folder, PLAN)
    cell = PLAN.cells[0]
    row = dict(status="run", experiment=cell.experiment, our_setting=cell.setting, method=cell.method)
    row |= dict(preset=cell.preset, scale="reduced", model="pm", our_metric="accuracy", scope="pooled")
    row |= dict(condition="clean", ours="0.9", std="", ours_last="0.9", published="0.9", published_std="")
    row |= dict(difference="0", verdict="", why_no_verdict="one seed", seeds="1", runs=cell.run.id)
    for name in (REPORT, "results/reduced/splits/pfedbayes/mnist-small.png", "results/reduced/summary.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("by hand\n")
    (folder / "results/reduced/reproduction").mkdir()
    with (folder / "results/reduced/reproduction/pfedbayes.csv").open("w", newline="") as lines:
        writer = csv.DictWriter(lines, list(row))
        writer.writeheader()
        writer.writerow(row)
    return folder


@pytest.mark.slow
def test_what_a_server_missed_while_it_was_down_is_published_later(trained: Path, server: MlflowServer) -> None:
    to_server = {"MLFLOW_TRACKING_URI": server.uri}
    receipts = Path("results/tracking") / store_name(server.uri) / "reduced"
    run = f"{receipts}/{next(iter(PLAN.tracking_batches))}.json"
    again = run.replace(".json", ".3.json")  # it will have been missed twice
    everything = [*CONFIG, *ONLY]

    _kill_snakemake_once_there_is(trained / run, [*everything, "--cores", "1", "--", run], trained, to_server)
    snakemake(trained, "--unlock", **to_server)
    assert planned(trained, *everything, **to_server) == {"track": 2, "track_means": 1, "all": 1}

    down = snakemake(trained, "--cores", "2", *everything, **to_server)
    assert "Not published to MLflow: 2 runs and the means of pfedbayes" in down.stderr
    assert f"the MLflow store {server.uri} cannot be reached: no answer" in down.stderr
    assert down.stderr.count("fedbayes: warning: not published to MLflow") == 3
    assert "Traceback" not in down.stdout + down.stderr
    assert planned(trained, *everything, **to_server) == {"track": 2, "track_means": 1, "all": 1}
    assert (trained / run).exists(), "a dry run takes nothing away from a campaign that may be under way"

    server.start()
    snakemake(trained, "--cores", "2", *everything, "--", again, **to_server)
    database = server.home / "mlflow.db"
    assert len(held(database, "pfedbayes")) == 1 + 1, "a run and its parent"
    assert planned(trained, *everything, **to_server) == {"track": 1, "track_means": 1, "all": 1}
    up = snakemake(trained, "--cores", "2", *everything, **to_server)
    assert "Not published" not in up.stderr and f"Report: {REPORT}" in up.stderr
    runs = held(database, "pfedbayes")
    assert len(runs) == 2 + 2 + 1, "two runs, their parents, the report"
    assert all(len(tags["fedbayes.digest"]) == 12 for _, tags, *_ in runs.values())
    assert planned(trained, *everything, **to_server) == {}


def _kill_snakemake_once_there_is(file: Path, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Start Snakemake, and end it and its jobs by force as soon as a file is there."""
    words, variables = command(folder, *arguments, **environment)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, cwd=folder, env=variables, stdout=quiet, stderr=quiet, start_new_session=True)
    for _ in range(600):
        if file.exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    assert file.exists()
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
