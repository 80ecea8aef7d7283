"""FedUAB's plan: one run for global and personal models, what its tests cost, and outsiders."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from artefacts import make_plan
from config_copy import Change, edit
from fedbayes.costs import Size, test_passes, visit_passes
from fedbayes.plan import ConfigError, Plan, load_plan

test_passes.__test__ = False  # type: ignore[attr-defined]  # passes of tests, not a test of passes

SPEC = {
    "training": {"rounds": 20, "clients_per_round": 4, "trains": "selected"},
    "local": {"batch": 10, "amount": 5, "unit": "epochs", "order": "shuffled"},
    "protocol": {"models": ["pm", "gm"], "every": 2, "pm_every": 10, "gm_tests": "whole"},
}
SIZE = Size(clients=20, train=1000.0, test=400.0)


def test_personal_models_cost_their_own_tests_and_what_they_train_before() -> None:
    # The global model at rounds 0, 2, ..., 20; personal ones at rounds 0, 10 and 20.
    assert test_passes(SPEC, SIZE, 1000.0) == 11 * 1000 + 3 * 400
    # A client has 50 samples: five epochs, three passes a sample.
    assert visit_passes(SPEC, SIZE) == 5 * 50 * 3
    tuned = SPEC | {"protocol": SPEC["protocol"] | {"personal": "fine-tuned"}}
    assert test_passes(tuned, SIZE, 1000.0) == pytest.approx(11 * 1000 + 3 * (400 + 20 * 5 * 50 * 3))


def test_table_8_needs_no_runs_beside_those_of_tables_6_and_7_but_bpfeds() -> None:
    plan = make_plan(scale="paper", papers=["feduab"])
    own = {cell.run.id for cell in plan.cells if cell.published_table in ("Table6", "Table7")}
    table8 = [cell for cell in plan.cells if cell.published_table == "Table8"]
    assert {cell.method for cell in table8 if cell.run.id not in own} == {"BPFed"}
    assert {cell.method for cell in table8 if cell.run.id in own} == {
        "FedAvg", "FedProx", "FedUAB-1", "FedUAB-2", "FedUAB-5", "pFedBayes"
    }  # fmt: skip
    tests = {cell.run.id: cell.run.spec["protocol"].get("personal") for cell in table8 if cell.method == "BPFed"}
    assert sorted(set(tests.values())) == ["fine-tuned", "trained"], "what is not said is run both ways"
    assert list(tests.values()).count("trained") == 3 * 12


def test_outsiders_belong_to_the_evaluation_and_not_to_the_run() -> None:
    plan = make_plan(scale="paper", papers=["feduab"], seeds=[0])
    asked = [cell for cell in plan.cells if cell.outsiders]
    assert {(cell.setting.removesuffix("-stored"), cell.outsiders) for cell in asked} == {
        ("cifar10-all-dirichlet", "cifar100")
    }
    assert "cifar100" not in json.dumps([cell.run.spec for cell in asked])
    assert set(plan.outsiders) == {cell.run.id for cell in asked}
    assert plan.pictured("feduab") == ["cifar10", "cifar100"]
    smoke = make_plan(papers=["feduab"])
    assert set(smoke.outsiders.values()) == {"cifar100-like"} and smoke.pictured("feduab")[0] == "cifar10-like"
    asking, other = asked[0].run, next(cell.run for cell in plan.cells if not cell.outsiders)
    assert plan.outsiders_digest(asking).startswith(plan.datasets["cifar100"].sha256 or "")
    assert plan.outsiders_digest(other) == ""


@pytest.mark.parametrize(
    ("outsiders", "words"),
    [
        ("cifar", ["unknown dataset: found 'cifar'", "did you mean 'cifar10'?"]),
        ("cifar10", ["found 'cifar10', which is trained on"]),
        ("mnist", ["found 'mnist'", "(1, 28, 28), those of 'cifar10' (3, 32, 32)", "images of the same shape"]),
    ],
)
def test_outsiders_that_cannot_be_shown_are_one_sentence(clone: Path, outsiders: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as said:
        plan_with(clone, showing(cifar10=outsiders, table8_cifar10=outsiders))
    sentence = str(said.value)
    assert "config/papers/feduab.yaml: experiments.cifar10.settings.cifar10-all-dirichlet.outsiders: " in sentence
    assert all(word in sentence for word in words)


def test_a_run_is_not_shown_two_kinds_of_outsiders(clone: Path) -> None:
    with pytest.raises(ConfigError, match="cifar10-all-dirichlet has the same run with 'cifar100'; expected one of"):
        plan_with(clone, showing(table8_cifar10="cifar100-like"))
    plan = plan_with(clone, showing(table8_cifar10=None))
    table8 = [cell for cell in plan.cells if cell.experiment == "table8-cifar10" and cell.method == "FedAvg"]
    assert not any(cell.outsiders for cell in table8)
    assert "cifar100" in {plan.outsiders.get(cell.run.id) for cell in table8}, (
        "one of the cells that share it is enough"
    )


def showing(**outsiders: str | None) -> Change:
    """Other outsiders, by experiment, in the settings on CIFAR-10 All-Dirichlet."""

    def change(paper: dict[str, Any]) -> None:
        for experiment, name in outsiders.items():
            settings = paper["experiments"][experiment.replace("_", "-")]["settings"]
            settings["cifar10-all-dirichlet"] = settings["cifar10-all-dirichlet"] | {"outsiders": name}

    return change


def plan_with(clone: Path, change: Change) -> Plan:
    """The plan at scale `paper` with a change of the paper's file."""
    edit(clone, "papers/feduab.yaml", change)
    return load_plan({"scale": "paper", "papers": ["feduab"], "seeds": [0]}, clone)


def test_a_scale_may_change_one_experiment_more_than_the_others() -> None:
    cells = make_plan(papers=["feduab"]).cells
    specs = {(cell.experiment, cell.method): cell for cell in cells}
    own, other = specs["cifar10", "FedUAB-5"], specs["mnist-small", "FedUAB-5"]
    assert (own.run.spec["training"]["rounds"], other.run.spec["training"]["rounds"]) == (2, 5)
    assert (own.run.spec["method"]["draws"], other.run.spec["method"]["draws"]) == (2, 5)
    assert own.run.spec["training"]["clients_per_round"] == 4, "what all experiments share stays"
    assert "rounds 2 (paper 2000)" in own.reduction and "draws 2 (paper 5)" in own.reduction


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training": {"round": 1}}, "experiments.cifar10.training.round: unknown key: found 'round'"),
        ({"set": {"fedper": {}}}, "experiments.cifar10.set: unknown method: found 'fedper'"),
        ({"set": {"feduab": {"draw": 1}}}, "experiments.cifar10.set.feduab.draw: unknown key: found 'draw'"),
    ],
)
def test_a_typo_in_what_a_scale_changes_of_an_experiment_is_one_sentence(
    clone: Path, changes: dict[str, object], words: str
) -> None:
    def change(paper: dict[str, Any]) -> None:
        paper["scales"]["smoke"]["experiments"]["cifar10"] = changes

    with pytest.raises(ConfigError, match=re.escape(f"config/papers/feduab.yaml: scales.smoke.{words}")):
        plan_with(clone, change)
