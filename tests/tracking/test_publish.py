"""What reaches MLflow, read back through its client: names, parameters, tags, points, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow_campaign import CELLS, ME, PAPER, PARENT, REPORT, ROUNDS, SEED0, SEED1, Campaign

from artefacts import ROOT, accuracy_at, make_plan, write_campaign
from fedbayes.analysis import compare
from fedbayes.io import read_json, write_json
from fedbayes.reading import ConfigError
from fedbayes.tracking import cells, publish_runs, store
from fedbayes.tracking.seed import Seed


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


def test_runs_say_who_published_them_where_that_has_a_name(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(store.getpass, "getuser", lambda: "ada")
    campaign.publish()
    monkeypatch.setattr(store.getpass, "getuser", lambda: "grace")
    campaign.publish()
    assert {run.data.tags["mlflow.user"] for run in campaign.runs()} == {"ada"}, "she publishes nothing anew"
    monkeypatch.setattr(store.getpass, "getuser", nameless)
    campaign.compare()
    assert "mlflow.user" not in campaign.run(REPORT).data.tags


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
    assert published.history(SEED1, "best/gm/clean/round") == [(0, started + 1000 * best, best)]
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


def test_the_parent_shows_its_client_split(published: Campaign) -> None:
    parent = published.run(PARENT)
    assert published.artifacts(parent.info.run_id) == ["splits/small.png"]
    shown = published.client.download_artifacts(parent.info.run_id, "splits/small.png")
    assert Path(shown).read_bytes() == published.split.read_bytes()
    assert "splits/" in published.client.get_experiment_by_name("pfedbayes").tags["mlflow.note.content"]


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


def test_cells_that_share_a_run_stay_apart(campaign: Campaign) -> None:
    other = [cell.row() | {"setting": "mnist-again"} for cell in CELLS]
    publish_runs(campaign.uri, ME, campaign.folder, PAPER, other)
    campaign.publish().compare()
    campaign.compared(our_setting="mnist-again", ours="0.5")
    campaign.compare()
    assert len(campaign.runs()) == 2 * 3 + 1
    again = PARENT.replace("small", "again")
    assert [campaign.run(name).data.metrics["best/gm/clean/accuracy"] for name in (PARENT, again)] == [0.865, 0.5]


def test_a_run_beside_several_printed_numbers_is_published_once_and_compared_under_each_condition(
    campaign: Campaign,
) -> None:
    rows = [cell.row() | {"published_condition": name} for cell in CELLS for name in ("normal-A", "alarm-B")]
    publish_runs(campaign.uri, ME, campaign.folder, PAPER, rows)
    campaign.compared(condition="normal-A", ours="inf", our_metric="relative_fa")
    campaign.compare()
    assert len(campaign.runs()) == 1 + 2 + 1, "the cell, its seeds, the report"
    metrics = campaign.run(PARENT).data.metrics
    assert metrics["published/gm/normal-A/relative_fa"] == 0.8738 and "best/gm/normal-A/relative_fa" not in metrics


def test_runs_that_are_not_published_cannot_be_compared(campaign: Campaign) -> None:
    campaign.compared(runs="0123456789ab")
    with pytest.raises(ConfigError, match=r"pfedbayes.csv: table1 / mnist-small.*0123456789ab.*not in the MLflow"):
        campaign.publish().compare()


def test_the_comparison_has_the_columns_that_are_read() -> None:
    assert set(cells.COLUMNS) <= set(compare.COLUMNS)


def test_a_foreign_table_is_refused(campaign: Campaign) -> None:
    campaign.reproduction.write_text("paper,table\n")
    with pytest.raises(ConfigError, match=r"pfedbayes.csv: header: the column 'status' is missing"):
        campaign.publish().compare()


@pytest.mark.parametrize("scale", ["smoke", "reduced", "paper"])
def test_no_two_runs_of_a_paper_share_a_name(scale: str) -> None:
    papers = sorted(file.stem for file in (ROOT / "config/papers").glob("*.yaml"))
    named: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for cell in make_plan(scale=scale, papers=papers).cells:
        name = Seed(cell.row(), Path()).child_name
        named.setdefault((cell.paper, name), set()).add((cell.experiment, cell.setting, cell.run.id))
    assert len(papers) == 5 and {name: runs for name, runs in named.items() if len(runs) > 1} == {}


def test_every_cell_of_the_plan_can_be_published(campaign: Campaign) -> None:
    plan = make_plan()
    write_campaign(campaign.folder, plan)
    campaign.publish(plan.cells_of("pfedbayes"))
    assert len(campaign.content()) == len({c.row()["folder"] + c.setting + c.preset for c in plan.cells}) + len(
        {(c.experiment, c.setting, c.method, c.preset) for c in plan.cells}
    )
