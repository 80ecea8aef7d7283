"""What a scale runs and changes: exact sizes at scale `paper`, and every other scale says what it reduces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artefacts import make_plan
from config_copy import at, edit
from fedbayes.plan import load_plan, reduction
from pfedbayes_copy import PAPER


def test_scale_paper_is_exactly_the_papers_setting() -> None:
    plan = make_plan(scale="paper")
    small = next(cell for cell in plan.cells if cell.setting == "mnist-small")
    spec = small.run.spec
    assert spec["training"] == {"rounds": 800, "clients_per_round": 10, "trains": "selected"}
    assert (spec["split"]["clients"], spec["split"]["train_per_class"], spec["split"]["test_per_class"]) == (
        10,
        50,
        950,
    )
    assert spec["dataset"] == "mnist" and spec["network"] == {"name": "mlp", "hidden": [100]}
    assert (small.reduction, small.stand_in_for) == ("", "")
    assert {cell.seed for cell in plan.cells} == {0, 1, 2}


def test_smoke_runs_the_embedded_set_and_says_what_it_reduces() -> None:
    plan = make_plan()
    assert {cell.run.dataset for cell in plan.cells} == {"mnist-5k"}
    assert {cell.stand_in_for for cell in plan.cells} == {"MNIST"}
    smoke = plan.papers["pfedbayes"].scales.smoke
    for cell in plan.cells:
        size = 950 if cell.setting.startswith("mnist-small") else 800
        assert f"test_per_class 50 (paper {size})" in cell.reduction
        rounds = f"rounds {smoke.training['rounds']} (paper 800)"
        assert (rounds in cell.reduction) == (cell.experiment != "figure3"), "Figure 3 has ten rounds in the paper"


def test_a_scale_may_run_the_first_presets_alone_and_says_what_it_leaves_out(clone: Path) -> None:
    def first_alone(paper: Any) -> None:
        paper["scales"]["smoke"]["only"]["table1"] = {"settings": ["mnist-small"], "presets": 1}

    edit(clone, "papers/pfedbayes.yaml", first_alone)
    plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
    methods = plan.papers["pfedbayes"].experiments["table1"].methods
    ran = {cell.method: cell.preset for cell in plan.cells if cell.experiment == "table1"}
    assert ran == {label: entry.presets[0] for label, entry in methods.items()}
    title = plan.papers["pfedbayes"].experiments["table1"].title
    left = {row["method"]: row["cells"] for row in plan.left_out("pfedbayes")
            if (row["experiment"], row["setting"]) == (title, "MNIST small")}  # fmt: skip
    assert left == {label: len(entry.presets) - 1 for label, entry in methods.items() if len(entry.presets) > 1}


def test_a_scale_makes_nothing_longer(clone: Path) -> None:
    def ten_rounds_more(paper: Any) -> None:
        paper["scales"]["reduced"] |= {"training": {"rounds": 200}, "protocol": {"window": [100, 200], "every": 5}}

    edit(clone, "papers/pfedbayes.yaml", ten_rounds_more)
    plan = load_plan({"scale": "reduced", "papers": ["pfedbayes"]}, clone)
    specs = {cell.experiment: cell.run.spec for cell in plan.cells}
    assert specs["table1"]["training"]["rounds"] == 200 and specs["table1"]["protocol"]["window"] == [100, 200]
    assert specs["figure3"]["training"]["rounds"] == 10
    assert (specs["figure3"]["protocol"]["window"], specs["figure3"]["protocol"]["every"]) == ([0, 10], 5)


def test_reduction_is_empty_for_equal_specifications() -> None:
    spec = make_plan().cells[0].run.spec
    assert reduction(spec, spec) == ""


def test_a_scale_may_change_a_method_s_fields_and_says_so(clone: Path) -> None:
    def fedavg() -> list[Any]:
        plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
        return [cell for cell in plan.cells if (cell.experiment, cell.method) == ("table1", "FedAvg")]

    assert {cell.run.spec["method"]["lr"] for cell in fedavg()} == {0.01}
    edit(clone, PAPER, at("scales", "smoke", "set", value={"fedavg": {"lr": 0.25}}))
    assert {cell.run.spec["method"]["lr"] for cell in fedavg()} == {0.25}
    assert all("lr 0.25 (paper 0.01)" in cell.reduction for cell in fedavg())


def test_a_scale_may_change_one_experiment_alone_and_that_wins(clone: Path) -> None:
    changes = {"training": {"rounds": 3}, "protocol": {"window": [0, 3]}, "set": {"fedavg": {"lr": 0.5}}}
    edit(clone, PAPER, at("scales", "smoke", "set", value={"fedavg": {"lr": 0.25}}))
    edit(clone, PAPER, at("scales", "smoke", "experiments", value={"table1": changes}))
    plan = load_plan({"scale": "smoke", "papers": ["pfedbayes"]}, clone)
    for cell in plan.cells:
        rounds = 3 if cell.experiment == "table1" else plan.papers["pfedbayes"].scales.smoke.training["rounds"]
        assert cell.run.spec["training"]["rounds"] == rounds
        if cell.method == "FedAvg":
            assert cell.run.spec["method"]["lr"] == (0.5 if cell.experiment == "table1" else 0.25)
    assert any(cell.experiment != "table1" for cell in plan.cells)
