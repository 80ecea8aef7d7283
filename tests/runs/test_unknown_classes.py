"""A global model is shown classes it does not know: what is written, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from agreement import preset
from embedded import small_run
from fedbayes.config import Execution
from fedbayes.data.fetch import load
from fedbayes.data.splits import make_split
from fedbayes.evaluation.doubt import auroc
from fedbayes.plan import Run
from fedbayes.runs.evaluate import evaluate
from fedbayes.runs.train import train
from fedbayes.split_rules import FedUABSplit
from fetched import write_dataset

SPLIT = FedUABSplit(rule="feduab", clients=3, train_per_client=12, test_per_client=6, law="iid")


def dataset(folder: Path, name: str, classes: int) -> Path:
    """Grey images of 3 x 3 pixels, ten a class in turn, three of them the test part."""
    stream = np.random.default_rng(classes)
    labels = np.tile(np.arange(classes), 10)
    inputs = (20 * (labels % 10)[:, None, None, None] + stream.integers(0, 40, (len(labels), 1, 3, 3))).astype(np.uint8)
    return write_dataset(folder / name, inputs, labels, name=name, sha256=name, test_per_class=[3] * classes)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FedUAB with three draws on ten classes, evaluated with a hundred others and without."""
    folder = tmp_path_factory.mktemp("outsiders")
    known, others, split = dataset(folder, "cifar10", 10), dataset(folder, "cifar100", 100), folder / "split.npz"
    make_split(known, SPLIT, 0, split, None)
    spec = small_run(2).spec
    protocol = spec["protocol"] | {"gm_tests": "whole", "personal": "fine-tuned"}
    run = Run(
        spec
        | {"dataset": "cifar10", "split": SPLIT.model_dump(mode="json"), "protocol": protocol}
        | {"method": preset("feduab", "paper", draws=3) | {"name": "feduab"}}
        | {"training": {"rounds": 2, "clients_per_round": 3, "trains": "selected"}}
    )
    train(run, "test", known, split, None, folder / "run", Execution(), show=lambda line: None)
    for name, shown in (("with", others), ("without", None)):
        evaluate(
            run,
            folder / "run/state.safetensors",
            known,
            split,
            None,
            folder / f"{name}.parquet",
            folder / f"{name}-predictions.parquet",
            Execution(),
            outsiders_folder=shown,
        )
    return folder


def test_outsiders_are_added_and_nothing_else_changes(evaluated: Path) -> None:
    for kind in ("", "-predictions"):
        beside, plain = (pd.read_parquet(evaluated / f"{name}{kind}.parquet") for name in ("with", "without"))
        known = beside[~beside["condition"].str.startswith("outsiders")].reset_index(drop=True)
        pd.testing.assert_frame_equal(known, plain)
        assert len(known) < len(beside)


def test_predictions_name_the_sample_in_its_own_dataset(evaluated: Path) -> None:
    rows = pd.read_parquet(evaluated / "with-predictions.parquet")
    known, others = load(evaluated / "cifar10"), load(evaluated / "cifar100")
    for condition, data in (("clean", known), ("outsiders", others)):
        own = rows[rows["condition"] == condition]
        assert (data.labels[own["sample"]] == own["label"]).all() and len(own)
    outside = rows[rows["condition"] == "outsiders"]
    assert set(outside["sample"]) == set(range(700, 1000)) and set(outside["client"]) == {-1}
    assert set(outside.loc[outside["resembles"], "label"]) == {13, 19, 34, 42, 43, 58, 81, 88, 89, 97}
    assert not rows.loc[rows["condition"] == "clean", "resembles"].any()


def test_auroc_is_that_of_the_kept_predictions(evaluated: Path) -> None:
    rows = pd.read_parquet(evaluated / "with-predictions.parquet").query("model == 'gm'")
    table = pd.read_parquet(evaluated / "with.parquet").query("model == 'gm' and state == 'best-gm' and client == -1")
    value = table.set_index(["condition", "metric"])["value"]
    known, outside = (rows[rows["condition"] == condition] for condition in ("clean", "outsiders"))

    def by_hand(sought: pd.DataFrame, others: pd.DataFrame) -> float:
        return auroc(*(torch.tensor(part["epistemic-trace"].to_numpy()) for part in (sought, others)))

    wrong = known["label"] != known["predicted"]
    expected = {
        ("clean", "auroc-wrong-epistemic-trace"): by_hand(known[wrong], known[~wrong]),
        ("outsiders", "auroc-ood-epistemic-trace"): by_hand(outside, known),
        ("outsiders-alike", "auroc-ood-epistemic-trace"): by_hand(outside[outside["resembles"]], known),
        ("outsiders-unlike", "auroc-ood-epistemic-trace"): by_hand(outside[~outside["resembles"]], known),
    }
    assert value[list(expected)].to_dict() == pytest.approx(expected)
    assert min(expected.values()) > 0 and max(expected.values()) < 1


def test_the_untuned_global_model_is_also_tested_where_personal_models_are(evaluated: Path) -> None:
    table = pd.read_parquet(evaluated / "without.parquet").query("state == 'last' and metric == 'accuracy'")
    local = table[(table["model"] == "gm") & (table["condition"] == "local")].set_index("client")["value"]
    assert sorted(local.index) == [-1, 0, 1, 2] and local[-1] == pytest.approx(local.drop(-1).mean())
    whole = table[(table["model"] == "gm") & (table["condition"] == "clean")]
    assert (whole["client"].tolist(), whole["samples"].tolist()) == ([-1], [30])
