"""The group of every predicted sample, where a dataset has groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from embedded import small_run
from fedbayes.config import Execution
from fedbayes.data.arrays import npz_bytes
from fedbayes.data.splits import make_split, read_split
from fedbayes.plan import Run
from fedbayes.runs.evaluate import evaluate
from fedbayes.runs.train import train
from fedbayes.split_rules import IidSplit
from fetched import write_dataset

SAMPLES = 40
# Client 0 is a newcomer: its samples come last among those of personal models.
SPLIT = IidSplit(rule="iid", clients=4, train_share=0.5, newcomers=(0,))
NAMES = {(state, device): f"{name}-{letter}" for state, name in enumerate(("normal", "playback", "alarm"))
         for device, letter in enumerate("ABCDE")}  # fmt: skip


@pytest.mark.parametrize("grouped", [True, False])
def test_each_sample_has_its_own_group(grouped: bool, tmp_path: Path) -> None:
    stream = np.random.default_rng(0)
    device, state = stream.integers(5, size=SAMPLES), stream.integers(3, size=SAMPLES)
    labels = np.arange(SAMPLES) % 2
    dataset = write_dataset(tmp_path / "toy", stream.integers(256, size=(SAMPLES, 1, 4, 4)).astype(np.uint8), labels)
    if grouped:
        (dataset / "tables.npz").write_bytes(npz_bytes({"device": device, "state": state}))
    split = tmp_path / "split.npz"
    make_split(dataset, SPLIT, 0, split, None)
    training = {"rounds": 1, "clients_per_round": 3, "trains": "selected"}
    run = Run(small_run(1).spec | {"dataset": "toy", "split": SPLIT.model_dump(mode="json"), "training": training})
    target, files = tmp_path / "run", (tmp_path / "evaluation.parquet", tmp_path / "predictions.parquet")
    train(run, "test", dataset, split, None, target, Execution(), lambda line: None)
    evaluate(run, target / "state.safetensors", dataset, split, None, *files, Execution())
    predicted, tests = pd.read_parquet(files[1]), read_split(split)[0].test
    assert set(predicted["model"]) == {"pm", "gm"}
    assert ("last" in set(predicted["state"])) == grouped
    for (_, _, client), rows in predicted.groupby(["state", "model", "client"]):
        own = tests[int(str(client))]
        assert rows["label"].tolist() == labels[own].tolist()
        expected = [NAMES[state[row], device[row]] if grouped else "" for row in own]
        assert rows["group"].tolist() == expected
    both = predicted["confidence"] + predicted["runner-up"]
    assert both.to_numpy() == pytest.approx(1.0, abs=1e-6), "the two highest of two classes"
