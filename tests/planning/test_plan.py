"""The plan: runs named by digest, cells that share them, and what settings and methods change of an experiment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from artefacts import ROOT, make_plan
from config_copy import at, edit
from fedbayes.plan import Run, digest, load_plan
from pfedbayes_copy import PAPER, complaint, row


def test_a_run_is_named_by_what_changes_its_numbers_only() -> None:
    cell = make_plan().cells[0]
    same = make_plan(execution={"device": "cuda:1", "checkpoint_seconds": 5, "lift": "loop", "chunk": 3}).cells[0]
    assert same.run.id == cell.run.id
    assert make_plan(seeds=[1]).cells[0].run.id != cell.run.id
    spec = cell.run.spec
    for section, key, value in (
        ("method", "lr", 0.02),
        ("training", "rounds", 21),
        ("split", "stratified", True),
        ("protocol", "every", 2),
        ("local", "batch", 21),
        ("preprocess", "mean", [0.4]),
    ):
        assert Run(spec | {section: spec[section] | {key: value}}).id != cell.run.id


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1}) != digest({"a": 1, "b": [2, 1]})


def test_equal_cells_run_once(clone: Path) -> None:
    def twice(paper: Any) -> None:
        paper["experiments"]["again"] = paper["experiments"]["table1"] | {"title": "the same runs under another name"}

    edit(clone, "papers/pfedbayes.yaml", twice)
    plan = load_plan({"scale": "paper", "papers": ["pfedbayes"]}, clone)
    before = make_plan(scale="paper")
    doubled = [cell for cell in before.cells if cell.experiment == "table1"]
    assert len(plan.cells) == len(before.cells) + len(doubled) and plan.runs.keys() == before.runs.keys()


def test_runs_that_differ_in_their_tests_alone_are_as_many_as_the_architecture_says() -> None:
    plan = make_plan(scale="paper", papers=["pfedbayes", "selffl", "bpfed", "lrbpfl", "feduab"])
    alike: dict[str, list[dict[str, Any]]] = {}
    for run in plan.runs.values():
        alike.setdefault(digest(run.spec | {"protocol": None}), []).append(run.spec["protocol"])
    pairs = [protocols for protocols in alike.values() if len(protocols) > 1]
    assert all(len(pair) == 2 for pair in pairs)
    counts = {key: sum(a.get(key) != b.get(key) for a, b in pairs) for key in ("window", "personal", "on_training")}
    assert counts == {"window": 12, "personal": 60, "on_training": 3} and len(pairs) == sum(counts.values())
    said = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert all(f"by `{key}` {count}" in said for key, count in counts.items()) and f"{len(pairs)} pairs" in said


def test_single_experiments_are_planned_alone_with_what_they_compare_with() -> None:
    whole, part = make_plan(papers=["bpfed"]), make_plan(papers=["bpfed"], experiments=["table2"])
    assert {cell.experiment for cell in part.cells} == {"table2"}
    assert part.runs.keys() == {cell.run.id for cell in whole.cells if cell.experiment == "table2"}
    assert part.shown("bpfed", "Table") == ["tableii"] and part.shown("bpfed", "Figure") == ["figure6"]
    figures = make_plan(papers=["selffl"]).shown("selffl", "Figure")
    assert figures == [f"figure{number}" for number in range(4, 13)], "as the paper numbers them"
    assert whole.shown("bpfed", "Table") == ["tablei", "tableii", "ours-ablations", "ours-new-client"]
    audio = make_plan(papers=["selffl"], experiments=["table4"])
    assert {cell.experiment for cell in audio.cells} == {"audio-central", "table4"}


def test_whole_numbers_and_their_floats_are_one_configuration(clone: Path) -> None:
    before = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone).cells[0].run.id

    def as_integer(presets: Any) -> None:
        presets["presets"]["paper"]["momentum"] = 0

    edit(clone, "methods/fedavg.yaml", as_integer)
    assert load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone).cells[0].run.id == before


def test_a_users_own_split_stays_out_of_data() -> None:
    committed, own = make_plan(), make_plan(seeds=[77])
    assert committed.split_file(committed.cells[0].run).startswith("data/mnist-5k/")
    assert own.split_file(own.cells[0].run).startswith("results/splits/mnist-5k/")


def test_a_field_that_marks_its_results_is_seen_wherever_the_cell_is() -> None:
    cells = [cell for cell in make_plan(scale="paper").cells if cell.method == "Per-FedAvg"]
    found = {cell.preset: (cell.marks, cell.variant, cell.row()["marks"]) for cell in cells}
    mark = "adapted on test data"
    assert found.pop("leak") == (mark, mark, mark)
    assert set(found.values()) == {("", "", "")}


def test_a_field_that_came_later_leaves_the_names_of_runs_before_it_alone(clone: Path) -> None:
    def fields(**changes: str) -> dict[str, Any]:
        edit(clone, PAPER, row(method="bpfed", presets=["paper"], set=changes))
        plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
        found: dict[str, Any] = next(cell.run.spec["method"] for cell in plan.cells if cell.method == "FedAvg")
        return found

    assert fields() == fields(turns="together") and "turns" not in fields()
    assert fields(turns="head-then-body") == fields() | {"turns": "head-then-body"}


def test_a_method_may_train_and_be_tested_in_its_own_way(clone: Path) -> None:
    own = {"training": {"trains": "all"}, "protocol": {"personal": "adapted", "adapt_batches": 3, "models": ["pm"]}}
    edit(clone, PAPER, row(method="fedavg", **own))
    plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
    for cell in (cell for cell in plan.cells if cell.experiment == "table1"):
        spec = cell.run.spec
        assert spec["training"]["trains"] == ("all" if cell.method == "FedAvg" else "selected")
        assert spec["protocol"].get("adapt_batches") == (3 if cell.method == "FedAvg" else None)


def test_scientific_notation_is_a_number(clone: Path) -> None:
    file = clone / "config/methods/fedavg.yaml"
    file.write_text(file.read_text().replace("lr: 0.01", "lr: 1e-2"))
    before = make_plan().cells[0].run.id
    assert load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone).cells[0].run.id == before


def test_planning_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pathlib import Path; from fedbayes.plan import load_plan; import fedbayes.tracking_uri;"
        f"load_plan({{'papers': ['pfedbayes']}}, Path({str(ROOT)!r}));"
        "print([m for m in ('torch', 'mlflow', 'pandas', 'numpy', 'torchvision') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_setting_may_have_its_own_number_of_active_clients(clone: Path) -> None:
    place = ("experiments", "table1", "settings", "mnist-small", "training")
    edit(clone, PAPER, at(*place, value={"clients_per_round": 3}))
    plan = load_plan({"scale": "paper", "papers": ["pfedbayes"], "seeds": [0]}, clone)
    for cell in (cell for cell in plan.cells if cell.experiment == "table1"):
        expected = 3 if cell.setting == "mnist-small" else 10
        assert cell.run.spec["training"]["clients_per_round"] == expected


def test_clients_of_a_round_are_counted_by_federation(clone: Path) -> None:
    """200 repeats of 20 clients are 4,000, but each has a server that chooses among 20."""
    experiment, setting = "synthetic-homogeneous", "case1-c1"
    plan = load_plan({"scale": "paper", "papers": ["selffl"], "seeds": [0]}, clone)
    run = next(cell.run for cell in plan.cells if (cell.experiment, cell.setting) == (experiment, setting))
    assert (run.split.population, run.split.replicates) == (4000, 200)
    place = ("experiments", experiment, "settings", setting, "training")
    edit(clone, "papers/selffl.yaml", at(*place, value={"clients_per_round": 21}))
    sentence = complaint(clone, papers=["selffl"])
    assert "training.clients_per_round: found 21; allowed: at most the 20 clients" in sentence
