"""A run with a shift: made, trained and tested on noisy images, and refused where they are not its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from embedded import small_run
from fedbayes.config import Execution
from fedbayes.data.corruptions import choose, corrupted
from fedbayes.data.fetch import array_digest, load
from fedbayes.data.shift_files import make_shift, read_noise
from fedbayes.data.splits import make_split, read_split
from fedbayes.io import file_sha256, read_json, write_json
from fedbayes.plan import Run
from fedbayes.reading import ConfigError
from fedbayes.runs.assemble import assemble
from fedbayes.runs.evaluate import evaluate
from fedbayes.runs.train import train
from fedbayes.shifts import NoisyClients
from fedbayes.split_rules import FedUABSplit, IidSplit, Split
from fetched import write_dataset

SHIFT = NoisyClients(kind="noisy-clients", choice="distinct", severities=(3,))
SPLIT = IidSplit(rule="iid", clients=3, train_share=0.5, validation=0.25)
SAMPLES = 36


class Job:
    """A tiny dataset with two easy classes, its split and its shift, in a folder."""

    def __init__(self, folder: Path, split: Split = SPLIT) -> None:
        self.dataset, self.split, self.shift = folder / "tiny", folder / "split.npz", folder / "deep/shift.npz"
        stream = np.random.default_rng(0)
        labels = np.arange(SAMPLES) % 2
        shade = 60 + 120 * labels + stream.integers(-20, 20, SAMPLES)
        inputs = np.broadcast_to(shade[:, None, None, None], (SAMPLES, 3, 32, 32)).astype(np.uint8)
        sha256 = array_digest(inputs, labels)
        write_dataset(self.dataset, inputs, labels, name="tiny", sha256=sha256, test_per_class=[6, 6])
        make_split(self.dataset, split, 0, self.split, None)
        self.run = Run(
            small_run(rounds=2).spec
            | {"dataset": "tiny", "split": split.model_dump(mode="json"), "shift": SHIFT.model_dump(mode="json")}
            | {"training": {"rounds": 2, "clients_per_round": 3, "trains": "selected"}}
        )

    def make_shift(self, seed: int = 0) -> None:
        make_shift(self.dataset, self.split, SHIFT, seed, self.shift)

    def held(self) -> list[Any]:
        clients, _ = read_split(self.split)
        return [np.concatenate(parts) for parts in zip(*clients, strict=True)]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path)
    made.make_shift()
    return made


def test_the_file_holds_every_sample_of_every_client_under_that_clients_noise(job: Job) -> None:
    clean, models = load(job.dataset).inputs, choose(SHIFT, 3, 0)
    with np.load(job.shift, allow_pickle=False) as arrays:
        noisy = dict(zip(arrays["samples"].tolist(), arrays["inputs"], strict=True))
    assert sorted(noisy) == list(range(SAMPLES)) and read_noise(job.shift)["noise"] == [str(model) for model in models]
    for own, model in zip(job.held(), models, strict=True):
        expected = corrupted(clean[own], own, model, 0)
        assert all((noisy[sample] == image).all() for sample, image in zip(own.tolist(), expected, strict=True))


def test_the_file_has_the_same_bytes_every_time(job: Job) -> None:
    before = job.shift.read_bytes()
    job.make_shift()
    assert job.shift.read_bytes() == before


def test_clients_train_and_are_tested_on_their_noisy_images(job: Job) -> None:
    data = assemble(job.run.spec, job.dataset, job.split, None, Execution(), job.shift).data
    clients, _ = read_split(job.split)
    clean, models = load(job.dataset).inputs, choose(SHIFT, 3, 0)
    for shards, parts in ((data.train, clients.train), (data.test, clients.test)):
        for client, own in enumerate(parts):
            found = data.inputs[shards.rows[client, : len(own)]].numpy()
            np.testing.assert_array_equal(found, corrupted(clean[own], own, models[client], 0))


def test_the_record_names_the_noise_and_its_digest(job: Job, tmp_path: Path) -> None:
    target = tmp_path / "run"
    train(job.run, "test", job.dataset, job.split, None, target, Execution(), lambda line: None, job.shift)
    record = read_json(target / "run.json")
    assert record["shift"] == {
        "path": job.shift.as_posix(),
        "sha256": file_sha256(job.shift),
        "noise": [str(model) for model in choose(SHIFT, 3, 0)],
    }
    assert record["spec"]["shift"]["kind"] == "noisy-clients"
    state, tested = target / "state.safetensors", tmp_path / "evaluation.parquet"
    evaluate(
        job.run, state, job.dataset, job.split, None, tested, tmp_path / "predictions.parquet", Execution(), job.shift
    )
    rounds = pd.read_parquet(target / "rounds.parquet")
    after = pd.read_parquet(tested).query("state == 'last' and client == -1").set_index(["model", "metric"])["value"]
    during = rounds.query("round == 2 and scope == 'pooled' and model != 'train'").set_index(["model", "metric"])
    assert after["gm", "nll"] == during.loc[("gm", "nll"), "value"]


@pytest.mark.parametrize(
    ("key", "spoil"),
    [
        ("seed", lambda job: job.make_shift(seed=1)),
        ("split", lambda job: make_split(job.dataset, SPLIT, 1, job.split, None)),
        ("shift", lambda job: job.run.spec["shift"].update(wraps_around=True)),
    ],
)
def test_a_file_made_for_something_else_is_refused(job: Job, key: str, spoil: Any) -> None:
    spoil(job)
    with pytest.raises(
        ConfigError, match=rf"shift.npz: made with another {key}; delete the file to have it made again"
    ):
        assemble(job.run.spec, job.dataset, job.split, None, Execution(), job.shift)


def test_a_run_never_trains_on_clean_images_by_mistake(job: Job) -> None:
    with pytest.raises(ValueError, match="a run with a shift needs its file"):
        assemble(job.run.spec, job.dataset, job.split, None, Execution())
    clean = {key: value for key, value in job.run.spec.items() if key != "shift"}
    with pytest.raises(ValueError, match="no other run may have one"):
        assemble(clean, job.dataset, job.split, None, Execution(), job.shift)


def test_samples_of_several_clients_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    shared = FedUABSplit(rule="feduab", clients=3, train_per_client=20, test_per_client=4, law="iid")
    job = Job(tmp_path, shared)
    with pytest.raises(
        ConfigError, match=r"split.npz: sample \d+ is used \d times; noisy clients need a split"
    ) as said:
        job.make_shift()
    assert "\n" not in str(said.value) and not job.shift.parent.exists()


def test_a_split_of_another_version_of_the_dataset_is_refused(job: Job) -> None:
    manifest = read_json(job.dataset / "manifest.json")
    write_json(job.dataset / "manifest.json", manifest | {"sha256": "0" * 64})
    with pytest.raises(ConfigError, match=r"split.npz: made for another version of the dataset 'tiny'; make it again"):
        job.make_shift()
