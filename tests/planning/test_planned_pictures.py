"""Which pictures of splits a plan asks for: one for each split, under a name of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from artefacts import make_plan
from config_copy import edit
from fedbayes.plan import load_plan


def test_a_picture_for_each_split_says_which_settings_share_it() -> None:
    plan = make_plan(scale="paper", seeds=[4, 2])
    pictures = plan.split_pictures["pfedbayes"]
    assert [name for name in pictures if name.startswith("mnist")] == [
        "mnist-small", "mnist-medium", "mnist-large", "mnist-small-stratified",
    ]  # fmt: skip
    assert pictures["mnist-small"].titles == {
        "table1/mnist-small": "MNIST small",
        "table1/mnist-small-batch20": "MNIST small, batch 20",
        "table1-bnfed/mnist-small-unit": "MNIST small",
        "table1-pfedgp/mnist-small": "MNIST small",
        "figure3/mnist-small-early": "MNIST small, first rounds",
    }
    first = {plan.split_file(run) for run in plan.runs.values() if run.spec["seed"] == 4}
    assert {plan.split_file(picture.run) for picture in pictures.values()} == first
    (only,) = make_plan().split_pictures["pfedbayes"].values()
    assert (only.run.dataset, only.dataset_title, only.stand_in_for) == ("mnist-5k", "MNIST-5k", "MNIST")


def test_pictures_of_different_splits_never_share_a_name(clone: Path) -> None:
    def again(paper: Any) -> None:
        other = yaml.safe_load(yaml.safe_dump(paper["experiments"]["table1"]))
        for setting in other["settings"].values():
            setting["split"]["train_per_class"] += 1
        other["settings"] = {"a/b": other["settings"].pop("mnist-large")} | other["settings"]
        paper["experiments"]["again"] = other

    edit(clone, "papers/pfedbayes.yaml", again)
    pictures = load_plan({"scale": "paper", "papers": ["pfedbayes"]}, clone).split_pictures["pfedbayes"]
    again = [picture for picture in pictures.values() if any(at.startswith("again/") for at in picture.titles)]
    assert len(pictures) == len(again) + len(make_plan(scale="paper").split_pictures["pfedbayes"]) and "a-b" in pictures
    (renamed,) = [name for name, picture in pictures.items() if "again/mnist-small" in picture.titles]
    assert renamed.startswith("mnist-small-") and pictures[renamed].run.spec["split"]["train_per_class"] == 51
    assert pictures["mnist-small"].run.spec["split"]["train_per_class"] == 50
