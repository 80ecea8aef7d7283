"""A cell that claims a printed number trains what the paper prints beside it: see `printed_texts.py`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from artefacts import ROOT, make_plan
from config_copy import at, edit
from fedbayes.plan import load_plan
from printed_texts import EXPERIMENTS, METHODS, differences

# Printed numbers that only stand-ins can claim, by paper and dataset, and why.
STAND_IN_ONLY = {
    ("Self-FL", "wake-word audio (proprietary)"): "the recordings belong to a company and were never published",
}


def printed() -> list[dict[str, str]]:
    with (ROOT / "config/published.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("paper", EXPERIMENTS)
def test_what_is_trained_is_what_is_printed(paper: str) -> None:
    assert differences(make_plan(scale="paper", papers=[paper], seeds=[0]), printed()) == []


@pytest.mark.parametrize("paper", EXPERIMENTS)
def test_every_experiment_and_method_with_printed_numbers_is_described(paper: str) -> None:
    plan = make_plan(scale="paper", papers=[paper], seeds=[0])
    experiments = plan.papers[paper].experiments
    assert EXPERIMENTS[paper].keys() == {name for name, one in experiments.items() if one.published_table}
    own = {row["method"] for row in printed() if row["paper"] == plan.papers[paper].name}
    assert METHODS[paper].keys() == own


def test_numbers_that_only_a_stand_in_claims_are_listed() -> None:
    plan = make_plan(scale="paper", papers=list(EXPERIMENTS), seeds=[0])
    rows = {(row["paper"], row["dataset"]) for row in printed()}
    itself = {
        (plan.papers[cell.paper].name, cell.published_dataset)
        for cell in plan.cells
        if cell.published_dataset and not cell.stand_in_for
    }
    assert rows - itself == STAND_IN_ONLY.keys() and all(STAND_IN_ONLY.values())
    # A stand-in beside the dataset itself says that it is one.
    assert all(cell.variant for cell in plan.cells if cell.stand_in_for and cell.published_dataset)


RHO = "rho-1_zeta-10_eta1-0.001_eta2-0.001"
TUNED = "heurfedamp-eta1-0.0005_self-0.1"
Mutation = tuple[str, Sequence[str], Any, str]
MUTATIONS: list[Mutation] = [
    ("pfedbayes", ("table2", "settings", RHO, "set", "initial_rho"), -1.1,
     "method.initial_rho is -1.1, the paper's is -1.0"),
    ("pfedbayes", ("table2", "settings", RHO, "set", "zeta"), 11.0, "method.zeta is 11.0, the paper's is 10.0"),
    ("pfedbayes", ("table3", "settings", TUNED, "set", "self_weight"), 0.5, "method.self_weight is 0.5"),
    ("pfedbayes", ("table3", "settings", "fedprox-eta2-0.001_lambda-0.1", "set", "mu"), 1.0, "method.mu is 1.0"),
    ("pfedbayes", ("table1", "methods", "FedAvg", "set", "lr"), 0.02, "method.lr is 0.02"),
    ("pfedbayes", ("table1", "methods", "pFedMe", "protocol"), {"models": ["pm"]}, "acc_GM_pct is of the model 'gm'"),
    ("pfedbayes", ("table1", "protocol", "window"), [0, 800], "protocol.window is [0, 800]"),
    ("pfedbayes", ("table1", "settings", "fmnist-large", "dataset"), "mnist", "dataset is 'mnist'"),
    ("pfedbayes", ("table1", "settings", "mnist-medium", "split", "train_per_class"), 199, "train_per_class is 199"),
    ("pfedbayes", ("table1", "settings", "mnist-small-batch20", "local", "batch"), 10, "local.batch is 10"),
    ("bpfed", ("table1", "methods", "FedAvg"), {"method": "fedprox", "presets": ["paper"], "set": {"lr": 0.001}},
     "method.name is 'fedprox', the paper's is 'fedavg'"),
    ("bpfed", ("table1", "methods", "FedAvg", "protocol"), {"models": ["pm", "gm"]}, "acc_pct is of the model 'gm'"),
    ("bpfed", ("table1", "methods", "pFedBayes", "presets"), ["paper"], "method.kl_divisor is 1.0"),
    ("bpfed", ("table1", "training", "rounds"), 801, "training.rounds is 801, the paper's is 800"),
    ("bpfed", ("table1-cifar10", "settings", "cifar10-small-16", "split", "clients"), 20, "split.clients is 20"),
    ("lrbpfl", ("table5", "training", "clients_per_round"), 50, "training.clients_per_round is 50, the paper's is 10"),
    ("lrbpfl", ("table5", "settings", "5of10-train40", "split", "train_share"), 0.1, "split.train_share is 0.1"),
    ("lrbpfl", ("table5", "settings", "2of10-train10", "split", "labels_per_client"), 5, "labels_per_client is 5"),
    ("lrbpfl", ("table6", "methods", "LR-BPFL (joint)", "presets"), ["paper"], "method.w_steps is 'as-many'"),
    ("feduab", ("mnist", "methods", "FedUAB-5", "set", "draws"), 2, "method.draws is 2, the paper's is 5"),
    ("feduab", ("mnist", "settings", "mnist-all-iid", "split", "law"), "only2", "split.law is 'only2'"),
    ("feduab", ("mnist", "protocol", "gm_tests"), "clients", "protocol.gm_tests is"),
    ("selffl", ("table6-few", "training", "clients_per_round"), 5, "training.clients_per_round is 5, the paper's is 2"),
    ("selffl", ("table4", "methods", "Self-FL (Algorithm 2)", "presets"), ["reference"], "method.algorithm is 1"),
]  # fmt: skip


@pytest.mark.parametrize(("paper", "path", "value", "words"), MUTATIONS, ids=[f"{m[0]}-{m[3][:40]}" for m in MUTATIONS])
def test_a_spoilt_configuration_is_noticed(
    clone: Path, paper: str, path: Sequence[str], value: Any, words: str
) -> None:
    edit(clone, f"papers/{paper}.yaml", at("experiments", *path, value=value))
    said = differences(load_plan({"scale": "paper", "papers": [paper], "seeds": [0]}, clone), printed())
    assert any(words in sentence for sentence in said), said[:5]
