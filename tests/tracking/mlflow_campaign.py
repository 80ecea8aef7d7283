"""Two finished seeds of one cell, published to a store of their own and read back through MLflow's client."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from mlflow.entities import Run as MlflowRun
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

from artefacts import make_plan, write_run
from fedbayes import plan as planning
from fedbayes.tracking import PaperInfo, publish_cells, publish_runs

ME = "somebody"  # the publisher
PAPER = PaperInfo("pfedbayes", "A title", "A. Author. A title. 2022.", "https://example.org/paper")
PARENT = "mnist-small / FedAvg (paper) / table1 @ smoke"
SEED0, SEED1 = (f"seed{seed} / {PARENT}" for seed in (0, 1))
REPORT = "report @ smoke"


def cells_of_two_seeds() -> list[planning.Cell]:
    """One cell of the real plan at scale smoke, with two seeds."""
    cells = make_plan(seeds=[0, 1]).cells
    return [c for c in cells if (c.setting, c.method, c.preset) == ("mnist-small", "FedAvg", "paper")]


CELLS = cells_of_two_seeds()
ROUNDS = CELLS[0].run.spec["training"]["rounds"]


class Campaign:
    """Two finished seeds of one cell in a folder, and a store beside them."""

    def __init__(self, folder: Path, empty_store: Path) -> None:
        self.folder, self.empty_store, self.stores = folder, empty_store, 0
        self.figure, self.table, self.split = (folder / name for name in ("figure2.svg", "table1.html", "small.png"))
        self.figure.write_text("<svg/>")
        self.table.write_text("<table/>")
        self.split.write_bytes(b"a picture")
        self.reproduction = folder / "pfedbayes.csv"
        self.compared()
        for cell in CELLS:
            write_run(folder, cell.run)
        self.new_store()

    def new_store(self) -> None:
        self.stores += 1
        self.database = self.folder / f"mlflow{self.stores}.db"
        self.uri = f"sqlite:///{self.database}"
        shutil.copy(self.empty_store, self.database)

    def compared(self, **changes: str) -> None:
        """Write the comparison: one printed number that ran, one that did not."""
        row = dict(experiment="table1", our_setting="mnist-small", method="FedAvg", preset="paper", scale="smoke")
        row |= dict(model="gm", our_metric="accuracy", scope="pooled", condition="clean", ours="0.865")
        row |= dict(std="0.007", ours_last="0.85")
        row |= dict(published="0.8738", published_std="", difference="-0.0088", verdict="", why_no_verdict="2 seeds")
        row |= dict(status="run", seeds="2", runs=" ".join(cell.run.id for cell in CELLS)) | changes
        with self.reproduction.open("w", newline="") as lines:
            writer = csv.DictWriter(lines, list(row))
            writer.writeheader()
            writer.writerows([row, dict.fromkeys(row, "") | {"status": "not run", "scale": "smoke"}])

    def publish(self, cells: list[planning.Cell] = CELLS) -> Campaign:
        publish_runs(self.uri, ME, self.folder, PAPER, [cell.row() for cell in cells])
        return self

    def compare(self) -> Campaign:
        splits = {f"table1/{setting}": self.split for setting in ("mnist-small", "mnist-again")}
        publish_cells(self.uri, ME, PAPER, self.reproduction, [self.figure], [self.table], splits)
        return self

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(self.uri)

    def runs(self, view: int = ViewType.ACTIVE_ONLY) -> list[MlflowRun]:
        experiment = self.client.get_experiment_by_name("pfedbayes")
        return list(self.client.search_runs([experiment.experiment_id], run_view_type=view))

    def run(self, name: str) -> MlflowRun:
        (found,) = [run for run in self.runs() if run.info.run_name == name]
        return found

    def history(self, name: str, metric: str) -> list[tuple[int, int, float]]:
        return self.points(self.run(name).info.run_id, metric)

    def points(self, run_id: str, metric: str) -> list[tuple[int, int, float]]:
        points = self.client.get_metric_history(run_id, metric)
        return sorted((point.step, point.timestamp, point.value) for point in points)

    def artifacts(self, run_id: str, folder: str | None = None) -> list[str]:
        found = self.client.list_artifacts(run_id, folder)
        return [p for f in found for p in (self.artifacts(run_id, f.path) if f.is_dir else [f.path])]

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table of the database."""
        with sqlite3.connect(self.database) as base:
            names = [name for (name,) in base.execute("select name from sqlite_master where type = 'table'")]
            return {name: sorted(base.execute(f"select * from {name}"), key=repr) for name in names}

    def content(self) -> dict[str, Any]:
        """All a reader sees, without the ids MLflow draws at random."""
        runs = self.runs()
        names = {run.info.run_id: run.info.run_name for run in runs}
        seen = {}
        for run in runs:
            tags = dict(run.data.tags)
            if "mlflow.parentRunId" in tags:
                tags["mlflow.parentRunId"] = names[tags["mlflow.parentRunId"]]
            points = {name: self.points(run.info.run_id, name) for name in run.data.metrics}
            times = (run.info.start_time, run.info.end_time, run.info.status)
            data = [(d.dataset.name, d.dataset.digest) for d in run.inputs.dataset_inputs]
            files = self.artifacts(run.info.run_id)
            seen[run.info.run_name] = [tags, dict(run.data.params), points, times, data, files]
        assert len(seen) == len(runs), "two runs of one name"
        return seen
