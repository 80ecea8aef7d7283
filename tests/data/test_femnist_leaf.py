"""FEMNIST from LEAF's JSON: tiny files in the real format, and every way a file or a user can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fedbayes.config import DatasetFacts
from fedbayes.data import femnist_leaf
from fedbayes.data.fetch import fetch, load
from fedbayes.reading import ConfigError

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))


def pixels(name: str, rows: int) -> np.ndarray[Any, Any]:
    """Images of a user, bytes (row, 784)."""
    return np.random.default_rng(list(name.encode())).integers(0, 256, (rows, 784), np.uint8)


def user(name: str, labels: list[int]) -> dict[str, Any]:
    """A user as LEAF writes it: bytes divided by 255."""
    return {"x": (pixels(name, len(labels)) / 255).tolist(), "y": labels}


def leaf(data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    counts = [len(own["y"]) for own in data.values()]
    return {"users": list(data), "num_samples": counts, "user_data": data} | changes


def write(root: Path, part: str, name: str, content: Any) -> Path:
    path = root / "femnist" / part / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_users_come_by_name_and_training_files_first(tmp_path: Path) -> None:
    labels = {"f1_b": [5, 61], "f0_a": [0], "f2_c": [7, 7, 1]}
    write(tmp_path, "train", "z", leaf({"f0_a": user("f0_a", labels["f0_a"])}))
    write(tmp_path, "train", "a", leaf({name: user(name, labels[name]) for name in ("f2_c", "f1_b")}))
    # One user of the training files, and one who is only here.
    write(tmp_path, "test", "a", leaf({"f9_d": user("f9_d", [3]), "f1_b": user("f1_b", [5])}))
    found = femnist_leaf.read(tmp_path / "out", tmp_path)
    assert found.labels.tolist() == [0, 5, 61, 7, 7, 1, 5, 3]
    assert found.tables["users"].tolist() == [0, 1, 1, 2, 2, 2, 1, 3]
    assert (found.labels.dtype, found.tables["users"].dtype, found.inputs.dtype) == (np.int64, np.int64, np.uint8)
    expected = [pixels(*of) for of in (("f0_a", 1), ("f1_b", 2), ("f2_c", 3), ("f1_b", 1), ("f9_d", 1))]
    np.testing.assert_array_equal(found.inputs, np.concatenate(expected).reshape(-1, 1, 28, 28))
    assert [file.name for file in found.files] == [f"femnist/{name}.json" for name in ("train/a", "train/z", "test/a")]


def test_all_62_classes_pass_the_check_of_the_facts(tmp_path: Path) -> None:
    write(tmp_path, "train", "a", leaf({"f0": user("f0", list(range(62)))}))
    write(tmp_path, "test", "a", leaf({"f1": user("f1", [61])}))
    fetch("femnist-leaf", DatasetFacts.model_validate(FACTS["femnist-leaf"]), tmp_path / "out", tmp_path)
    assert load(tmp_path / "out").tables["users"].tolist() == [0] * 62 + [1]


def test_every_byte_survives_the_division_by_255(tmp_path: Path) -> None:
    image = np.resize(np.arange(256, dtype=np.uint8), 784)
    for part in ("train", "test"):
        write(tmp_path, part, "a", leaf({part: {"x": [(image / 255).tolist()], "y": [0]}}))
    np.testing.assert_array_equal(femnist_leaf.read(tmp_path, tmp_path).inputs.reshape(2, 784), [image, image])


GOOD = user("f0", [1, 2])
SHORT = {"x": [row[:-1] for row in GOOD["x"]], "y": GOOD["y"]}
RAGGED = {"x": [GOOD["x"][0], GOOD["x"][1][:-1]], "y": GOOD["y"]}
NOT_ROWS = "user 'f0': x: expected rows of 784 numbers from 0 to 1"


def with_pixel(value: Any) -> dict[str, Any]:
    return {"x": [GOOD["x"][0], [value, *GOOD["x"][1][1:]]], "y": GOOD["y"]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe{}", r"not UTF-8 text \(byte 0\)"),
        (b'{"users": [', r"not JSON \(Expecting value: line 1"),
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        ([1], "users: expected a list, as LEAF writes it"),
        ({"users": ["f0"], "num_samples": [2]}, "user_data: expected a mapping"),
        (leaf({"f0": GOOD}, users=["f0", "f0"]), "its 2 users, 1 num_samples and 1 entries of user_data do not belong"),
        (leaf({"f0": GOOD}, users=[0]), "do not belong together"),
        (leaf({"f0": GOOD}, num_samples=[2, 2]), "its 1 users, 2 num_samples and 1 entries of user_data do not"),
        (leaf({"f0": GOOD}, num_samples=[3]), "user 'f0': num_samples is 3, but x has 2 rows and y 2"),
        (leaf({"f0": GOOD | {"y": [1]}}), "user 'f0': num_samples is 1, but x has 2 rows and y 1"),
        (leaf({"f0": GOOD | {"y": [1, 62]}}), "user 'f0': y: found 62; allowed: whole numbers from 0 to 61"),
        (leaf({"f0": GOOD | {"y": [-1, 2]}}), "user 'f0': y: found -1"),
        (leaf({"f0": GOOD | {"y": [1, 2.5]}}), "user 'f0': y: found 2.5"),
        (leaf({"f0": SHORT}), NOT_ROWS),
        (leaf({"f0": RAGGED}), NOT_ROWS),
        (leaf({"f0": with_pixel(1.001)}), NOT_ROWS),
        (leaf({"f0": with_pixel(float("nan"))}), NOT_ROWS),
        (leaf({"f0": with_pixel("0.5")}), NOT_ROWS),
        (leaf({"f0": with_pixel(None)}), NOT_ROWS),
        (leaf({"f0": GOOD | {"x": 5}}), NOT_ROWS),
        (leaf({"f0": {"x": [], "y": []}}), "user 'f0': has no sample"),
        (leaf({"f0": GOOD}, user_data={"f0": [1]}), "user 'f0': expected a mapping with the lists 'x' and 'y'"),
        (leaf({"f0": GOOD}, user_data={"f0": {"x": GOOD["x"]}}), "user 'f0': expected a mapping with the lists"),
    ],
)
def test_what_leaf_would_not_write_is_one_sentence(content: Any, said: str, tmp_path: Path) -> None:
    write(tmp_path, "train", "a", leaf({"f1": GOOD}))
    path = write(tmp_path, "train", "b", content)
    write(tmp_path, "test", "a", leaf({"f1": GOOD}))
    with pytest.raises(ConfigError, match=said) as error:
        femnist_leaf.read(tmp_path / "out", tmp_path)
    assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_user_in_two_files_of_a_part_is_refused(part: str, tmp_path: Path) -> None:
    for folder in ("train", "test"):
        write(tmp_path, folder, "a", leaf({"f0": GOOD}))
    path = write(tmp_path, part, "b", leaf({"f0": GOOD}))
    with pytest.raises(ConfigError, match=f"{path}: user 'f0' is also in a.json; expected each user once"):
        femnist_leaf.read(tmp_path / "out", tmp_path)


def test_a_user_may_be_called_x(tmp_path: Path) -> None:
    for part in ("train", "test"):
        write(tmp_path, part, "a", leaf({"x": GOOD}))
    assert femnist_leaf.read(tmp_path, tmp_path).labels.tolist() == [1, 2, 1, 2]


def test_missing_files_and_a_missing_folder_say_where_they_belong(tmp_path: Path) -> None:
    write(tmp_path, "train", "a", leaf({"f0": GOOD}))
    with pytest.raises(ConfigError, match=f"{tmp_path}/femnist/test: expected LEAF's files .*, found none"):
        femnist_leaf.read(tmp_path / "out", tmp_path)
    with pytest.raises(
        ConfigError, match=r"let FEDBAYES_DATA .* folder that holds femnist/train/\*\.json and femnist/t"
    ):
        femnist_leaf.read(tmp_path / "out", None)


def test_a_user_written_twice_in_one_file_is_refused(tmp_path: Path) -> None:
    text = '{"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [], "y": []}, "a": {"x": [], "y": []}}}'
    for folder in ("train", "test"):
        (tmp_path / "femnist" / folder).mkdir(parents=True)
        (tmp_path / "femnist" / folder / "all.json").write_text(text)
    with pytest.raises(ConfigError, match=r"all\.json: the key 'a' is written twice; expected each user once"):
        femnist_leaf.read(tmp_path, tmp_path)


def test_files_without_a_user_are_one_sentence(tmp_path: Path) -> None:
    for folder in ("train", "test"):
        (tmp_path / "femnist" / folder).mkdir(parents=True)
        (tmp_path / "femnist" / folder / "all.json").write_text('{"users": [], "num_samples": [], "user_data": {}}')
    with pytest.raises(ConfigError, match="LEAF's files hold no user"):
        femnist_leaf.read(tmp_path, tmp_path)
