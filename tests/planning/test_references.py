"""Cells that need another run: warm starts, baselines; settings with several printed numbers; single experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artefacts import make_plan
from config_copy import at, complaint, edit
from fedbayes.config import Place, PublishedKey
from fedbayes.plan import Plan, load_plan

SELFFL = "papers/selffl.yaml"
TWEETS = "experiments.sent140-subset"


def change(clone: Path, path: str, value: Any) -> None:
    """Write a value at a path of keys of the paper's file."""
    edit(clone, SELFFL, at(*path.split("/"), value=value))


def planned(root: Path, scale: str = "smoke", **config: Any) -> Plan:
    return load_plan({"scale": scale, "papers": ["selffl"]} | config, root)


@pytest.mark.parametrize("scale", ["smoke", "reduced", "paper"])
def test_a_warm_start_is_the_run_of_the_same_setting_scale_and_seed(scale: str) -> None:
    plan = make_plan(papers=["selffl"], scale=scale, seeds=[0, 3])
    warm = [cell for cell in plan.cells if cell.run.warm_start]
    assert warm
    for cell in warm:
        start = plan.runs[str(cell.run.warm_start)]
        for key in ("dataset", "split", "network", "preprocess", "seed"):
            assert start.spec[key] == cell.run.spec[key]
        assert start.method == "fedavg" and start.warm_start is None
        assert plan.start_file(cell.run) == f"{start.folder}/state.safetensors"
        assert plan.start_file(start) is None
    assert all(("warm_start" in run.spec) == (run.warm_start is not None) for run in plan.runs.values())


def test_what_the_start_is_made_of_is_part_of_a_runs_name(clone: Path) -> None:
    def names() -> dict[str, str]:
        cells = planned(clone).cells
        return {cell.method: cell.run.id for cell in cells if cell.experiment == "sent140-subset"}

    before = names()
    change(clone, "experiments/sent140-subset/methods/FedAvg (warm start)/set", {"lr": 0.5})
    after = names()
    assert before.keys() == after.keys() and all(before[method] != after[method] for method in before)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("experiments/sent140-subset/methods/Self-FL/warm_start", "FedAvgg",
         [f"{TWEETS}.methods.Self-FL.warm_start: unknown method: found 'FedAvgg'", "did you mean 'FedAvg'?"]),
        ("experiments/sent140-subset/methods/Self-FL/warm_start", "FedAvg",
         ["found 'FedAvg', which has a warm start itself"]),
        ("scales/smoke/only/sent140-subset/methods", ["Self-FL"],
         [f"{TWEETS}.methods.Self-FL.warm_start", "'FedAvg (warm start)', which scale smoke does not run in"]),
        ("experiments/table4/baseline/experiment", "audio-centre",
         ["experiments.table4.baseline.experiment: unknown experiment", "did you mean 'audio-central'?"]),
        ("experiments/table4/baseline/experiment", "femnist",
         ["experiments.table4.baseline.experiment: 'femnist' has 0 settings on 'wakeword-fsdd'; expected one"]),
        ("experiments/table4/baseline/method", "Centre",
         ["experiments.table4.baseline.method: unknown method", "did you mean 'Central'?"]),
        ("scales/smoke/only/audio-central/settings", [],
         ["experiments.table4.baseline.method", "'Central', which scale smoke does not run in 'all-devices'"]),
        ("experiments/table4/settings/devices/published/conditions", {"state": ["normal"]},
         ["settings.devices.published", "expected the names in braces in `setting`: ['device', 'state']"]),
        ("experiments/table4/settings/devices/published/conditions", {"state": ["normal"], "device": ["A", "F"]},
         ["settings.devices.published: no such column of Table4", "full participation, device F'"]),
        ("scales/smoke/experiments/tabel4", {},
         ["scales.smoke.experiments: unknown experiment: found 'tabel4'"]),
        ("scales/smoke/experiments/table4/training", {"round": 2},
         ["scales.smoke.experiments.table4.training.round: unknown key", "did you mean 'rounds'?"]),
        ("scales/smoke/experiments/table4/split", {"labels_per_client": 2},
         ["scales.smoke.experiments.table4.split: unknown key"]),
        ("scales/smoke/experiments/table4/set", {"fedavg": {"lr": 0.1}},
         ["scales.smoke.experiments.table4.set: unknown method: found 'fedavg'"]),
    ],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_is_one_sentence(clone: Path, path: str, value: Any, words: list[str]) -> None:
    change(clone, path, value)
    sentence = complaint(clone, scale="smoke", papers=["selffl"])
    assert sentence.startswith("config/papers/selffl.yaml: ")
    for word in words:
        assert word in sentence


def test_a_baseline_is_on_the_same_data_and_changes_no_name(clone: Path) -> None:
    plan = planned(clone, "paper")
    cells = [cell for cell in plan.cells if cell.baseline]
    assert {cell.experiment for cell in cells} == {"table4", "table5", "table6", "table6-few"}
    folders = {run.folder: run for run in plan.runs.values()}
    for cell in cells:
        baseline = folders[cell.baseline]
        assert (baseline.dataset, baseline.spec["seed"]) == (cell.run.dataset, cell.seed)
        assert baseline.spec["split"]["clients"] == 1
    change(clone, "experiments/table4/baseline", None)
    without = [cell for cell in planned(clone, "paper").cells if cell.experiment == "table4"]
    assert {cell.baseline for cell in without} == {""}
    assert {cell.run.id for cell in without} == {cell.run.id for cell in cells if cell.experiment == "table4"}


def test_one_run_stands_beside_all_printed_numbers_of_its_setting() -> None:
    plan = make_plan(papers=["selffl"], scale="paper", seeds=[0])
    cells = [c for c in plan.cells if (c.experiment, c.setting, c.method[-7:]) == ("table5", "devices", "-level)")]
    client = [cell for cell in cells if "client" in cell.method]
    assert len(client) == 15 and len({cell.run.id for cell in client}) == 1
    places = {cell.published_condition: cell.published_setting for cell in client}
    assert places["alarm-D"] == "global model, 20 clients, C=0.25, state alarm, device D"
    # Table 6 prints the same configuration once more.
    again = {cell.run.id for cell in plan.cells if (cell.experiment, cell.setting) == ("table6", "devices")}
    assert again == {client[0].run.id}
    assert {cell.published_condition for cell in plan.cells if not cell.baseline} == {"clean"}


def test_what_a_scale_leaves_out_counts_every_printed_number() -> None:
    plan = make_plan(papers=["selffl"])
    left = [row for row in plan.left_out("selffl") if row["published_table"] == "Table4"]
    # Both algorithms on Speech Commands, five devices each.
    assert len(left) == 10 and sum(row["cells"] for row in left) == 10
    assert {row["published_setting"][-8:] for row in left} == {f"device {device}" for device in "ABCDE"}


def test_places_are_all_combinations_in_order() -> None:
    key = PublishedKey(dataset="D", setting="at {where}, {when}", conditions={"when": ("now", "then"), "where": ("x",)})
    assert key.places() == (Place("D", "at x, now", "now-x"), Place("D", "at x, then", "then-x"))
    assert PublishedKey(dataset="D", setting="small").places() == (Place("D", "small", "clean"),)


def test_changes_to_one_experiment_win_and_touch_no_other(clone: Path) -> None:
    before = planned(clone)
    change(clone, "scales/smoke/experiments/table6-few/training", {"rounds": 2, "clients_per_round": 1})
    change(clone, "scales/smoke/experiments/table6-few/protocol", {"window": [0, 2]})
    after = planned(clone)
    for old, new in zip(before.cells, after.cells, strict=True):
        if new.experiment == "table6-few":
            assert (new.run.spec["training"]["rounds"], new.run.spec["training"]["clients_per_round"]) == (2, 1)
            assert "rounds 2 (paper 200)" in new.reduction
        else:
            assert old.run.id == new.run.id
