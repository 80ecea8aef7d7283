"""Split files: the same bytes every time, whole or not at all, and never other than those that are listed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealing import deal
from fedbayes.data.splits import COLUMNS, make_split, read_split, split_bytes, split_row
from fedbayes.reading import ConfigError
from fedbayes.split_rules import PFedBayesSplit
from fetched import write_dataset

SPLIT = PFedBayesSplit(
    rule="pfedbayes", clients=4, labels_per_client=2, train_per_class=2, test_per_class=3, stratified=True
)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A fetched dataset of 40 samples in four classes."""
    return write_dataset(tmp_path / "toy", np.zeros((40, 1, 1, 1), np.uint8), np.arange(40) % 4)


def test_what_is_read_is_what_the_rule_gave(dataset: Path, tmp_path: Path) -> None:
    make_split(dataset, SPLIT, 5, tmp_path / "deep/er/seed5.npz", None)
    clients, manifest = read_split(tmp_path / "deep/er/seed5.npz")
    for parts, expected in zip(clients, deal(np.arange(40) % 4, SPLIT, 5), strict=True):
        assert len(parts) == 4
        for found, same in zip(parts, expected, strict=True):
            np.testing.assert_array_equal(found, same)
            assert found.dtype == np.int64
    assert manifest == {
        "dataset": "toy", "dataset_sha256": "ab" * 32, "rule": "pfedbayes", "split": SPLIT.model_dump(), "seed": 5,
        "clients": 4, "train": 16, "val": 0, "test": 24,
    }  # fmt: skip


def test_numpy_alone_can_read_the_arrays(dataset: Path, tmp_path: Path) -> None:
    make_split(dataset, SPLIT, 0, tmp_path / "seed0.npz", None)
    with np.load(tmp_path / "seed0.npz", allow_pickle=False) as arrays:
        parts = [f"{part}_{kind}" for part in ("train", "val", "test") for kind in ("index", "offsets")]
        assert list(arrays) == [*parts, "manifest"]
        assert arrays["train_offsets"].tolist() == [0, 4, 8, 12, 16]
        assert arrays["val_offsets"].tolist() == [0, 0, 0, 0, 0]
        assert arrays["test_offsets"].tolist() == [0, 6, 12, 18, 24]
        assert json.loads(str(arrays["manifest"]))["seed"] == 0


def test_bytes_depend_on_the_content_only(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = split_bytes(dataset, SPLIT, 0)
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    monkeypatch.setattr("zipfile.sys.platform", "win32")
    assert split_bytes(dataset, SPLIT, 0) == first
    assert split_bytes(dataset, SPLIT, 1) != first


def test_bytes_are_those_of_the_day_the_format_was_fixed(dataset: Path) -> None:
    # Whoever changes this number changes every committed split.
    fixed = "4f34f2cff3f5ea16f0909b13d067b5d6dd0efe859e517f120852a81fe2793b6f"
    assert hashlib.sha256(split_bytes(dataset, SPLIT, 0)).hexdigest() == fixed


def listed(dataset: Path, **changes: Any) -> dict[str, str]:
    return split_row("data/toy/seed0.npz", split_bytes(dataset, SPLIT, 0)) | changes


def test_a_row_describes_its_file(dataset: Path) -> None:
    content = split_bytes(dataset, SPLIT, 0)
    row = listed(dataset)
    assert tuple(row) == COLUMNS
    assert row["sha256"] == hashlib.sha256(content).hexdigest()
    assert row["md5"] == hashlib.md5(content).hexdigest()
    assert row["bytes"] == str(len(content))
    assert (row["dataset"], row["seed"], row["clients"], row["train"], row["test"]) == ("toy", "0", "4", "16", "24")
    assert PFedBayesSplit.model_validate(json.loads(row["split"])) == SPLIT


def test_a_listed_split_is_made_when_it_agrees(dataset: Path, tmp_path: Path) -> None:
    make_split(dataset, SPLIT, 0, tmp_path / "seed0.npz", listed(dataset))
    assert (tmp_path / "seed0.npz").read_bytes() == split_bytes(dataset, SPLIT, 0)


def test_a_listed_split_that_differs_is_refused_and_not_written(dataset: Path, tmp_path: Path) -> None:
    row = listed(dataset)
    np.save(dataset / "labels.npy", np.arange(40)[::-1] % 4)
    found = hashlib.sha256(split_bytes(dataset, SPLIT, 0)).hexdigest()
    with pytest.raises(ConfigError) as caught:
        make_split(dataset, SPLIT, 0, tmp_path / "data/seed0.npz", row)
    assert str(caught.value) == (
        f"config/splits.csv: data/toy/seed0.npz: expected a split with sha256 {row['sha256']}, but this code and "
        f"dataset make {found}; undo the change of either, or, if it is meant, run 'make commit-splits' and commit "
        "config/splits.csv and data.dvc"
    )
    assert not (tmp_path / "data").exists()
