"""Shifts in the plan: part of a run's name, their samples made once a seed, refused where they cannot be made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artefacts import make_plan
from config_copy import at, edit
from fedbayes.plan import load_plan
from pfedbayes_copy import PAPER, complaint

SHIFT = {"kind": "noisy-clients", "choice": "distinct"}


def with_shift(dataset: str = "cifar10", **changes: Any) -> Any:
    """The smallest setting of Table 1 on images large enough to corrupt, with noisy clients."""

    def change(paper: Any) -> None:
        setting = paper["experiments"]["table1"]["settings"]["mnist-small"]
        setting |= {"dataset": dataset, "shift": SHIFT | changes}

    return change


def test_runs_without_a_shift_keep_the_names_they_had() -> None:
    # FedAvg on MNIST small, as docs/reproduction/pfedbayes.csv lists its runs.
    ids = {cell.seed: cell.run.id for cell in make_plan(scale="paper").cells if cell.method == "FedAvg"
           and (cell.setting, cell.variant) == ("mnist-small", "")}  # fmt: skip
    assert ids == {0: "2d7bbdd41d75", 1: "5ed596f301d5", 2: "fe1c974479fb"}
    assert all("shift" not in run.spec and run.shift_file is None for run in make_plan(scale="paper").runs.values())


@pytest.mark.parametrize("scale", ["paper", "reduced"])
def test_a_shift_is_part_of_a_runs_name_and_its_samples_are_made_once_a_seed(clone: Path, scale: str) -> None:
    names = []
    for change in (at("experiments", "table1", "settings", "mnist-small", "dataset", value="cifar10"),
                   with_shift(), with_shift(choice="replacement"), with_shift(severities=[1, 2])):  # fmt: skip
        edit(clone, PAPER, change)
        plan = load_plan({"scale": scale, "papers": ["pfedbayes"]}, clone)
        cells = [c for c in plan.cells if (c.experiment, c.setting) == ("table1", "mnist-small")]
        names.append(frozenset(cell.run.id for cell in cells))
    assert len(set.union(*map(set, names))) == sum(map(len, names))
    spec = cells[0].run.spec["shift"]
    assert spec == SHIFT | {"severities": [1, 2], "wraps_around": False}
    folder = cells[0].run.split_stem.rsplit("/", 1)[0]
    name = "noisy-clients-distinct-severities1_2"
    seeds = getattr(plan.papers["pfedbayes"].scales, scale).seeds
    assert sorted(plan.shifts) == [f"results/shifts/{folder}/{name}/seed{seed}.npz" for seed in seeds]
    assert {cell.run.shift_file for cell in cells} == set(plan.shifts) and len(cells) > 3
    assert all(cell.reduction == "" for cell in cells) == (scale == "paper")
    clean = next(cell.run for cell in plan.cells if cell.setting == "mnist-medium")
    assert len(plan.data_digest(cells[0].run).split("-")) == len(plan.data_digest(clean).split("-")) + 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_shift("mnist"),
         ["config/papers/pfedbayes.yaml", "settings.mnist-small / methods.FedAvg / shift", "cannot be made from MNIST",
          "the shape (1, 28, 28)", "at least 32 x 32 pixels"]),
        (with_shift(severities=[3, 1]), ["settings.mnist-small.shift.severities", "found [3, 1]", "rising order"]),
        (with_shift(severities=[6]), ["settings.mnist-small.shift.severities.0", "less than or equal to 5"]),
        (with_shift(choice="distinkt"), ["mnist-small.shift.choice", "did you mean 'distinct'?"]),
        (with_shift(kind="noisy"), ["mnist-small.shift.kind", "noisy-clients"]),
        (with_shift(wraps_around=True), ["experiments.table1.preprocess", "expected mean 0, std 1"]),
        (with_shift(wraps_round=True), ["mnist-small.shift.wraps_round", "did you mean 'wraps_around'?"]),
    ],
)  # fmt: skip
def test_a_shift_that_cannot_be_made_is_one_sentence(clone: Path, change: Any, words: list[str]) -> None:
    edit(clone, PAPER, change)
    sentence = complaint(clone)
    for word in words:
        assert word in sentence


def test_more_clients_than_noise_models_are_refused_where_these_must_be_distinct(clone: Path) -> None:
    split = {"rule": "iid", "clients": 58, "train_share": 0.5}
    edit(clone, PAPER, with_shift())
    edit(clone, PAPER, at("experiments", "table1", "settings", "mnist-small", "split", value=split))
    assert "58 clients cannot have distinct noise models: there are 57" in complaint(clone)
    edit(clone, PAPER, with_shift(choice="replacement"))
    assert load_plan({"scale": "paper", "papers": ["pfedbayes"]}, clone).shifts


def test_a_scale_that_runs_smaller_images_is_refused_too(clone: Path) -> None:
    edit(clone, PAPER, with_shift())
    edit(clone, "datasets.yaml", at("cifar10", "embedded", value="mnist-5k"))
    assert "cannot be made from MNIST-5k" in complaint(clone, scale="smoke")
