"""Publishing again: nothing twice, nothing stale, nothing lost, also after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from mlflow_campaign import CELLS, ME, PAPER, PARENT, REPORT, SEED0, SEED1, Campaign

from artefacts import write_run
from fedbayes import plan as planning
from fedbayes.io import ROUNDS_COLUMNS, read_json, write_json, write_rows
from fedbayes.tracking import publish_runs


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
    thrown_away = {run.info.run_id for run in campaign.runs(ViewType.DELETED_ONLY)}
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
    assert {run.info.run_id for run in campaign.runs(ViewType.DELETED_ONLY)} - thrown_away == {before[SEED0]}


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


def test_a_changed_picture_of_the_split_replaces_the_old_one(campaign: Campaign) -> None:
    campaign.publish().compare()
    campaign.split = campaign.split.rename(campaign.folder / "renamed.png")
    parent = campaign.compare().run(PARENT)
    assert campaign.artifacts(parent.info.run_id) == ["splits/renamed.png"]
    assert [value for _, _, value in campaign.history(PARENT, "best/gm/clean/accuracy")] == [0.865]
    assert len(campaign.runs()) == 4
    campaign.split.write_bytes(b"another picture")
    parent = campaign.compare().run(PARENT)
    shown = campaign.client.download_artifacts(parent.info.run_id, "splits/renamed.png")
    assert Path(shown).read_bytes() == b"another picture"


def test_a_changed_setting_stands_beside_the_old_one(campaign: Campaign) -> None:
    campaign.publish()
    spec = CELLS[0].run.spec
    other = planning.Run(spec | {"method": spec["method"] | {"lr": 0.5}})
    write_run(campaign.folder, other)
    publish_runs(campaign.uri, ME, campaign.folder, PAPER, [CELLS[0].row() | {"run": other.id, "folder": other.folder}])
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


def test_a_deleted_experiment_is_brought_back(campaign: Campaign) -> None:
    before = campaign.publish().content()
    campaign.client.delete_experiment(campaign.client.get_experiment_by_name("pfedbayes").experiment_id)
    assert campaign.publish().content() == before


def test_somebodys_own_run_is_left_alone(campaign: Campaign) -> None:
    experiment = campaign.publish().client.get_experiment_by_name("pfedbayes")
    mine = campaign.client.create_run(experiment.experiment_id, tags={"scale": "smoke"}).info.run_id
    campaign.publish().compare()
    assert campaign.client.get_run(mine).info.lifecycle_stage == "active"
