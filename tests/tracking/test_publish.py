"""What reaches MLflow, read back through its client: complete, readable, and the same however often it is published."""

from __future__ import annotations

import csv
import json
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run as MlflowRun
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

from artefacts import accuracy_at, make_plan, write_campaign, write_run
from fedbayes import plan as planning
from fedbayes.io import ROUNDS_COLUMNS, read_json, write_json, write_rows
from fedbayes.reading import ConfigError
from fedbayes.tracking import PaperInfo, open_store, publish_cells, publish_runs
from fedbayes.tracking.store import Shelf

PAPER = PaperInfo("pfedbayes", "A title", "A. Author. A title. 2022.", "https://example.org/paper")
PARENT = "mnist-small / FedAvg (paper) / table1 @ smoke"
SEED0, SEED1 = (f"seed{seed} / mnist-small / FedAvg (paper) @ smoke" for seed in (0, 1))
REPORT = "report @ smoke"


def cells_of_two_seeds() -> list[planning.Cell]:
    """One cell of the real plan at scale smoke, with two seeds."""
    cells = make_plan(seeds=[0, 1]).cells
    return [c for c in cells if (c.setting, c.method, c.preset) == ("mnist-small", "FedAvg", "paper")]


CELLS = cells_of_two_seeds()
ROUNDS = CELLS[0].run.spec["training"]["rounds"]


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store; made once, because MLflow takes seconds to make one."""
    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    open_store(f"sqlite:///{file}")
    return file


class Campaign:
    """Two finished seeds of one cell in a folder, and a store beside them."""

    def __init__(self, folder: Path, empty_store: Path) -> None:
        self.folder, self.empty_store, self.stores = folder, empty_store, 0
        self.figure, self.table = folder / "figure2.svg", folder / "table1.html"
        self.figure.write_text("<svg/>")
        self.table.write_text("<table/>")
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
        row |= dict(model="gm", our_metric="accuracy", scope="pooled", ours="0.865", std="0.007", ours_last="0.85")
        row |= dict(published="0.8738", published_std="", difference="-0.0088", verdict="", why_no_verdict="2 seeds")
        row |= dict(status="run", seeds="2", runs=" ".join(cell.run.id for cell in CELLS)) | changes
        with self.reproduction.open("w", newline="") as lines:
            writer = csv.DictWriter(lines, list(row))
            writer.writeheader()
            writer.writerows([row, dict.fromkeys(row, "") | {"status": "not run", "scale": "smoke"}])

    def publish(self, cells: list[planning.Cell] = CELLS) -> Campaign:
        publish_runs(self.uri, self.folder, PAPER, [cell.row() for cell in cells])
        return self

    def compare(self) -> Campaign:
        publish_cells(self.uri, PAPER, self.reproduction, [self.figure], [self.table])
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


@pytest.fixture
def campaign(tmp_path: Path, empty_store: Path) -> Campaign:
    return Campaign(tmp_path, empty_store)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Campaign:
    """A campaign published once, to be looked at only."""
    return Campaign(tmp_path_factory.mktemp("published"), empty_store).publish().compare()


def test_a_paper_is_an_experiment_with_a_description(published: Campaign) -> None:
    experiment = published.client.get_experiment_by_name("pfedbayes")
    note = experiment.tags["mlflow.note.content"]
    assert note.startswith(PAPER.title) and PAPER.citation in note and PAPER.url in note
    assert experiment.artifact_location == (published.folder / "mlruns" / "pfedbayes").as_uri()


def test_seeds_are_children_of_their_cell(published: Campaign) -> None:
    assert {run.info.run_name for run in published.runs()} == {PARENT, SEED0, SEED1, REPORT}
    parent = published.run(PARENT)
    for name in (SEED0, SEED1):
        assert published.run(name).data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert "mlflow.parentRunId" not in parent.data.tags


def test_parameters_are_the_flat_specification(published: Campaign) -> None:
    child, parent = published.run(SEED1).data.params, published.run(PARENT).data.params
    spec = CELLS[1].run.spec
    assert child["method.lr"] == str(spec["method"]["lr"])
    assert child["training.rounds"] == str(ROUNDS)
    assert child["split.rule"] == spec["split"]["rule"]
    assert json.loads(child["protocol.window"]) == spec["protocol"]["window"]
    assert child["seed"] == "1"
    assert parent == {name: value for name, value in child.items() if name != "seed"}


def test_tags_say_what_one_filters_by(published: Campaign) -> None:
    child, parent = published.run(SEED1).data.tags, published.run(PARENT).data.tags
    cell = CELLS[1]
    shared = {"paper": "pfedbayes", "experiment": "table1", "setting": "mnist-small", "method": "FedAvg"}
    shared |= {"preset": "paper", "scale": "smoke", "dataset": "mnist-5k", "stand_in_for": cell.stand_in_for}
    shared |= {"reduction": cell.reduction, "partition": cell.run.split_stem.split("/")[1]}
    assert shared.items() <= child.items()
    assert shared.items() <= parent.items()
    own = {"seed": "1", "outcome": "finished", "data.md5": "2" * 32, "git.commit": "unknown"}
    assert own.items() <= child.items()
    assert not own.keys() & parent.keys()
    assert child["fedbayes.run"] == f"{cell.run.id}/{parent['fedbayes.cell']}"
    assert "variant" not in child, "an empty word is no tag"


def test_metrics_stand_at_their_round_and_time(published: Campaign) -> None:
    run, started = CELLS[1].run, 1_700_000_000_000
    pooled = [(r, started + 1000 * r, accuracy_at(run, r)) for r in range(ROUNDS + 1)]
    assert published.history(SEED1, "gm/clean/accuracy") == pooled
    assert published.history(SEED1, "gm/clean/accuracy/worst") == [(r, t, value - 0.05) for r, t, value in pooled]
    assert published.history(SEED1, "train/loss") == [(r, started + 1000 * r, 2.0 / r) for r in range(1, ROUNDS + 1)]


def test_final_and_best_are_single_values(published: Campaign) -> None:
    run, best, started = CELLS[1].run, ROUNDS - 2, 1_700_000_000_000
    assert published.history(SEED1, "final/gm/clean/accuracy") == [
        (0, started + 1000 * ROUNDS, accuracy_at(run, ROUNDS))
    ]
    assert published.history(SEED1, "best/gm/clean/accuracy") == [(0, started + 1000 * best, accuracy_at(run, best))]
    assert published.history(SEED1, "best/gm/round") == [(0, started + 1000 * best, best)]
    assert "final/pm/clean/accuracy" in published.run(SEED1).data.metrics
    assert "best/pm/clean/accuracy" not in published.run(SEED1).data.metrics, "there is no state best-pm"


def test_times_status_dataset_and_artifact(published: Campaign) -> None:
    run = published.run(SEED0)
    assert (run.info.start_time, run.info.end_time) == (1_700_000_000_000, 1_700_000_012_500)
    assert run.info.status == "FINISHED"
    (data,) = run.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("mnist-5k", "2" * 32)
    assert [(tag.key, tag.value) for tag in data.tags] == [("mlflow.data.context", "training")]
    shown = published.client.download_artifacts(run.info.run_id, "run.json")
    assert Path(shown).read_bytes() == (published.folder / CELLS[0].run.folder / "run.json").read_bytes()


def test_a_run_that_did_not_finish_is_failed(campaign: Campaign) -> None:
    file = campaign.folder / CELLS[0].run.folder / "run.json"
    write_json(file, read_json(file) | {"outcome": "diverged"})
    run = campaign.publish().run(SEED0)
    assert (run.info.status, run.data.tags["outcome"]) == ("FAILED", "diverged")


def test_the_comparison_stands_on_the_parent(published: Campaign) -> None:
    parent = published.run(PARENT)
    name = "gm/clean/accuracy"
    assert parent.data.metrics == {
        f"best/{name}": 0.865,
        f"best/{name}/std": 0.007,
        f"final/{name}": 0.85,
        f"published/{name}": 0.8738,
        f"difference/{name}": -0.0088,
    }
    assert (parent.data.tags["verdict"], parent.data.tags["seeds"]) == ("none (2 seeds)", "2")


def test_the_report_run_holds_tables_and_figures(published: Campaign) -> None:
    report = published.run(REPORT)
    assert set(published.artifacts(report.info.run_id)) == {
        "figures/figure2.svg",
        "tables/table1.html",
        "pfedbayes.csv",
    }


def test_the_saved_view_has_the_columns_to_compare(published: Campaign) -> None:
    tags = published.client.get_experiment_by_name("pfedbayes").tags
    state = json.loads(json.loads(tags["mlflow.sharedViewState.reproduction"])["state"])
    assert {"metrics.`published/gm/clean/accuracy`", "tags.`verdict`"} < set(state["selectedColumns"])


def test_publishing_twice_changes_nothing(campaign: Campaign) -> None:
    before = campaign.publish().compare().tables()
    after = campaign.publish().compare().tables()
    assert before.keys() == after.keys()
    for table, rows in before.items():
        assert after[table] == rows, table


def test_a_deleted_store_comes_back_the_same(campaign: Campaign) -> None:
    before = campaign.publish().compare().content()
    campaign.new_store()
    assert campaign.publish().compare().content() == before


@pytest.mark.parametrize("started", [1_600_000_000, 1_800_000_000])
def test_seeds_published_one_by_one_give_the_same(campaign: Campaign, started: int) -> None:
    other = campaign.folder / CELLS[1].run.folder / "run.json"
    write_json(other, read_json(other) | {"started": float(started)})
    at_once = campaign.publish().content()
    campaign.new_store()
    assert campaign.publish(CELLS[:1]).publish(CELLS[1:]).content() == at_once
    starts = (started * 1000, 1_700_000_000_000)
    parent = campaign.run(PARENT)
    assert (parent.info.start_time, parent.info.end_time) == (min(starts), max(starts) + 12_500)


def test_a_changed_run_is_replaced(campaign: Campaign) -> None:
    campaign.publish().compare()
    before = {name: campaign.run(name).info.run_id for name in (PARENT, SEED0, SEED1, REPORT)}
    rows = [(r, "gm", "clean", "pooled", "accuracy", 0.25) for r in range(3)]
    write_rows(campaign.folder / CELLS[0].run.folder / "rounds.parquet", ROUNDS_COLUMNS, rows)
    campaign.publish().compare()
    after = {name: campaign.run(name).info.run_id for name in before}
    assert {name for name in before if before[name] != after[name]} == {SEED0}
    assert [(step, value) for step, _, value in campaign.history(SEED0, "gm/clean/accuracy")] == [
        (0, 0.25),
        (1, 0.25),
        (2, 0.25),
    ]
    assert [run.info.run_id for run in campaign.runs(ViewType.DELETED_ONLY)] == [before[SEED0]]


def test_a_changed_comparison_replaces_its_values(campaign: Campaign) -> None:
    campaign.publish().compare()
    campaign.compared(ours="0.9", verdict="reproduced", why_no_verdict="")
    campaign.compare()
    parent = campaign.run(PARENT)
    assert [value for _, _, value in campaign.history(PARENT, "best/gm/clean/accuracy")] == [0.9]
    assert parent.data.tags["verdict"] == "reproduced"
    assert parent.data.params["method.name"] == "fedavg"
    assert all(campaign.run(s).data.tags["mlflow.parentRunId"] == parent.info.run_id for s in (SEED0, SEED1))
    assert len(campaign.runs()) == 4
    before = campaign.tables()
    assert campaign.publish().compare().tables() == before


def test_a_changed_setting_stands_beside_the_old_one(campaign: Campaign) -> None:
    campaign.publish()
    spec = CELLS[0].run.spec
    other = planning.Run(spec | {"method": spec["method"] | {"lr": 0.5}})
    write_run(campaign.folder, other)
    publish_runs(campaign.uri, campaign.folder, PAPER, [CELLS[0].row() | {"run": other.id, "folder": other.folder}])
    parents = [run for run in campaign.runs() if run.info.run_name == PARENT]
    assert sorted(run.data.params["method.lr"] for run in parents) == ["0.01", "0.5"]
    campaign.compare()
    marked = [run for run in campaign.runs() if run.info.run_name == PARENT and "verdict" in run.data.tags]
    assert [run.data.params["method.lr"] for run in marked] == ["0.01"]


@pytest.mark.parametrize("step", ["set_terminated", "set_tag", "delete_run"])
def test_an_interrupted_publication_is_repaired(campaign: Campaign, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    campaign.publish().compare()
    file = campaign.folder / CELLS[0].run.folder / "run.json"
    write_json(file, read_json(file) | {"started": 1_600_000_000.0})  # replaces the seed and its parent

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, step, killed)
        with pytest.raises(KeyboardInterrupt):
            campaign.publish()
    repaired = campaign.publish().compare().content()
    campaign.new_store()
    assert campaign.publish().compare().content() == repaired


@pytest.mark.parametrize("step", ["set_terminated", "set_tag", "delete_run"])
def test_an_interrupted_comparison_is_repaired(campaign: Campaign, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    campaign.publish().compare()
    campaign.compared(ours="0.9")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, step, killed)
        with pytest.raises(KeyboardInterrupt):
            campaign.compare()
    repaired = campaign.compare().content()
    campaign.new_store()
    assert campaign.publish().compare().content() == repaired


def test_cells_that_share_a_run_stay_apart(campaign: Campaign) -> None:
    other = [cell.row() | {"setting": "mnist-again"} for cell in CELLS]
    publish_runs(campaign.uri, campaign.folder, PAPER, other)
    campaign.publish().compare()
    campaign.compared(our_setting="mnist-again", ours="0.5")
    campaign.compare()
    assert len(campaign.runs()) == 2 * 3 + 1
    again = PARENT.replace("small", "again")
    assert [campaign.run(name).data.metrics["best/gm/clean/accuracy"] for name in (PARENT, again)] == [0.865, 0.5]


def test_a_deleted_experiment_is_brought_back(campaign: Campaign) -> None:
    before = campaign.publish().content()
    campaign.client.delete_experiment(campaign.client.get_experiment_by_name("pfedbayes").experiment_id)
    assert campaign.publish().content() == before


def test_somebodys_own_run_is_left_alone(campaign: Campaign) -> None:
    experiment = campaign.publish().client.get_experiment_by_name("pfedbayes")
    mine = campaign.client.create_run(experiment.experiment_id, tags={"scale": "smoke"}).info.run_id
    campaign.publish().compare()
    assert campaign.client.get_run(mine).info.lifecycle_stage == "active"


def test_runs_that_are_not_published_cannot_be_compared(campaign: Campaign) -> None:
    campaign.compared(runs="0123456789ab")
    with pytest.raises(ConfigError, match=r"pfedbayes.csv: table1 / mnist-small.*0123456789ab.*not in the MLflow"):
        campaign.publish().compare()


def test_a_foreign_table_is_refused(campaign: Campaign) -> None:
    campaign.reproduction.write_text("paper,table\n")
    with pytest.raises(ConfigError, match=r"pfedbayes.csv: header: the column 'status' is missing"):
        campaign.publish().compare()


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


@pytest.mark.slow
def test_a_server_gets_the_same_as_a_file(campaign: Campaign, server: str) -> None:
    by_file = campaign.publish().compare().content()
    campaign.uri = server
    open_store(server)
    assert campaign.publish().compare().content() == by_file
    assert campaign.publish().compare().content() == by_file


def test_every_cell_of_the_plan_can_be_published(campaign: Campaign) -> None:
    plan = make_plan()
    write_campaign(campaign.folder, plan)
    campaign.publish(plan.cells_of("pfedbayes"))
    assert len(campaign.content()) == len({c.row()["folder"] + c.setting + c.preset for c in plan.cells}) + len(
        {(c.experiment, c.setting, c.method, c.preset) for c in plan.cells}
    )
