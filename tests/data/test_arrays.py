"""Files of arrays that are cut, empty or something else: one sentence each, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedbayes.data.arrays import npz_bytes, read_npy, read_npz
from fedbayes.data.fetch import load
from fedbayes.data.splits import make_split, read_split
from fedbayes.reading import ConfigError
from fedbayes.split_rules import IidSplit
from fetched import write_dataset

SPLIT = IidSplit(rule="iid", clients=2, train_share=0.5)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(npz_bytes({"a": np.arange(3), "b": np.zeros((2, 0))}))
    found = read_npz(tmp_path / "a.npz", "a")
    assert found["a"].tolist() == [0, 1, 2] and found["b"].shape == (2, 0)


@pytest.mark.parametrize("keep", [0, 1, 30, 200, -1])
def test_a_split_cut_short_is_one_sentence(tmp_path: Path, keep: int) -> None:
    dataset = write_dataset(tmp_path / "toy", np.zeros((8, 1)), np.arange(8) % 2)
    file = tmp_path / "seed0.npz"
    make_split(dataset, SPLIT, 0, file, None)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ConfigError, match=r"seed0\.npz: not a complete file of arrays \(.*\); delete it"):
        read_split(file)


def test_arrays_of_something_else_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(npz_bytes({"a": np.arange(3)}))
    with pytest.raises(ConfigError, match=r"a\.npz: has no array 'train_index'; delete the file"):
        read_split(tmp_path / "a.npz")
    with pytest.raises(ConfigError, match=r"b\.npz: the file does not exist"):
        read_npz(tmp_path / "b.npz")
    with pytest.raises(ConfigError, match=r"b\.npy: the file does not exist"):
        read_npy(tmp_path / "b.npy")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        ("inputs.npy", cut, "not a complete file of arrays"),
        ("labels.npy", cut, "not a complete file of arrays"),
        ("tables.npz", cut, "not a complete file of arrays"),
        ("tables.npz", Path.unlink, "the file does not exist"),
        ("manifest.json", cut, "not JSON"),
        ("manifest.json", Path.unlink, "no fetched dataset"),
        ("tables.npz", lambda file: file.write_bytes(npz_bytes({"users": np.arange(3)})), "users of 3 samples"),
        ("tables.npz", lambda file: file.write_bytes(npz_bytes({})), "has no array 'users'"),
    ],
)
def test_a_spoilt_dataset_is_one_sentence(tmp_path: Path, name: str, spoil: Callable[[Path], None], said: str) -> None:
    dataset = write_dataset(tmp_path / "toy", np.zeros((8, 1)), np.arange(8) % 2, tables=["users"])
    (dataset / "tables.npz").write_bytes(npz_bytes({"users": np.arange(8)}))
    assert load(dataset).tables["users"].tolist() == list(range(8))
    spoil(dataset / name)
    with pytest.raises(ConfigError, match=said) as caught:
        load(dataset)
    assert "\n" not in str(caught.value)
