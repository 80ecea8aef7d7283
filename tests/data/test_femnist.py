"""FEMNIST's letters in tiny archives of EMNIST's format, MNIST's digits by their writers, and all that can be wrong."""

from __future__ import annotations

import gzip
import hashlib
import struct
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from fedbayes.config import DatasetFacts
from fedbayes.data import femnist
from fedbayes.data.fetch import fetch, load
from fedbayes.data.partition import samples_of
from fedbayes.data.sources import RawData, data_root, described
from fedbayes.data.torchvision_import import torchvision_datasets
from fedbayes.reading import ConfigError

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))

RANDOM = np.random.default_rng(0)
# All ten letters, and their neighbours in the order of classes: Z (35) and k (46).
LABELS = {"train": [36, 0, 45, 35, 46, *range(37, 45), 61], "test": [46, 36, 45, 9]}
IMAGES = {part: RANDOM.integers(0, 256, (len(labels), 28, 28), np.uint8) for part, labels in LABELS.items()}


def idx(array: np.ndarray[Any, Any]) -> bytes:
    """An array of bytes, or of whole numbers of four bytes, in the IDX format."""
    code = {"u1": 8, "i4": 12}[array.dtype.str[1:]]
    return (
        struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def emnist_files() -> dict[str, bytes]:
    """Name and content of EMNIST's four files, unpacked."""
    return {f"emnist-byclass-{part}-images-idx3-ubyte": idx(images) for part, images in IMAGES.items()} | {
        f"emnist-byclass-{part}-labels-idx1-ubyte": idx(np.array(labels, np.uint8)) for part, labels in LABELS.items()
    }


def write_emnist(root: Path, layout: str, files: dict[str, bytes], packed: dict[str, bytes] | None = None) -> Path:
    """The files below `root`; `packed` replaces what gzip makes of some."""
    raw = root / "EMNIST/raw"
    raw.mkdir(parents=True, exist_ok=True)
    gz = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()} | (packed or {})
    if layout == "archive":
        with zipfile.ZipFile(raw / "gzip.zip", "w") as archive:
            for name, content in gz.items():
                archive.writestr(f"gzip/{name}", content)
            archive.writestr("../outside", "evil")
    for name, content in {"packed": gz, "unpacked": files, "archive": {}}[layout].items():
        (raw / name).write_bytes(content)
    return raw


@pytest.fixture
def emnist(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Torchvision's EMNIST; a test sets the published sum to that of its own archive."""
    loader = torchvision_datasets().EMNIST
    monkeypatch.setattr(loader, "md5", loader.md5)
    return loader


def fetched(root: Path, out: Path, emnist: Any) -> Any:
    archive = root / "EMNIST/raw/gzip.zip"
    if archive.is_file():
        emnist.md5 = md5(archive.read_bytes())
    fetch("femnist", DatasetFacts.model_validate(FACTS["femnist"]), out, root)
    return load(out)


@pytest.mark.parametrize("layout", ["archive", "packed", "unpacked"])
def test_letters_a_to_j_come_upright_and_training_part_first(layout: str, tmp_path: Path, emnist: Any) -> None:
    raw = write_emnist(tmp_path / "mine", layout, emnist_files())
    before = {file.name: file.read_bytes() for file in raw.iterdir()}
    found = fetched(tmp_path / "mine", tmp_path / "out", emnist)
    assert found.labels.tolist() == [0, 9, *range(1, 9), 0, 9]
    expected = [IMAGES["train"][row].T for row in (0, 2, *range(5, 13))] + [IMAGES["test"][row].T for row in (1, 2)]
    np.testing.assert_array_equal(found.inputs[:, 0], expected)
    assert (found.inputs.shape, found.inputs.dtype, found.labels.dtype) == ((12, 1, 28, 28), np.uint8, np.int64)
    assert {Path(file["name"]).name: file["md5"] for file in found.manifest["files"]} == {
        name: md5(content) for name, content in before.items()
    }
    assert {file.name: file.read_bytes() for file in raw.iterdir()} == before, "the user's folder is only read"
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "inputs.npy", "labels.npy", "manifest.json", "tables.npz",
    ]  # fmt: skip
    assert not list(tmp_path.rglob("outside"))


def test_letters_are_those_torchvision_names(tmp_path: Path, emnist: Any) -> None:
    write_emnist(tmp_path, "unpacked", emnist_files())
    theirs = emnist(tmp_path, split="byclass", train=True)
    ours = fetched(tmp_path, tmp_path / "out", emnist)
    named = [theirs.classes[label] for label in theirs.targets]
    rows = [row for row, name in enumerate(named) if name in "abcdefghij"]
    assert ["abcdefghij"[label] for label in ours.labels[: len(rows)]] == [named[row] for row in rows]
    np.testing.assert_array_equal(ours.inputs[: len(rows), 0], theirs.data[rows].transpose(1, 2))


def test_the_archive_wins_over_files_beside_it(tmp_path: Path, emnist: Any) -> None:
    write_emnist(tmp_path, "archive", emnist_files())
    write_emnist(tmp_path, "unpacked", {name: b"something else" for name in emnist_files()})
    assert len(fetched(tmp_path, tmp_path / "out", emnist).labels) == 12


TRAIN_IMAGES, TRAIN_LABELS = "emnist-byclass-train-images-idx3-ubyte", "emnist-byclass-train-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (TRAIN_IMAGES, b"\0\0\x08\x01", "begins with 0x00000801, not with the magic number 0x00000803"),
        (TRAIN_IMAGES, idx(IMAGES["train"])[:-1], "ends before the 14 rows"),
        (TRAIN_IMAGES, idx(IMAGES["train"][:13]), "found 13 rows, expected 14, one for each label"),
        (TRAIN_IMAGES, idx(IMAGES["train"][:, :27]), r"found rows of shape \[27, 28\], expected \[28, 28\]"),
        (TRAIN_LABELS, idx(np.array([62, 36], np.uint8)), "found label 62; allowed: 0 to 61"),
        (TRAIN_LABELS, idx(np.array([36], np.uint8)) + b"x", "goes on after the 1 rows"),
    ],
)
@pytest.mark.parametrize("layout", ["archive", "packed", "unpacked"])
def test_a_wrong_file_is_named_in_one_sentence(
    layout: str, name: str, content: bytes, said: str, tmp_path: Path, emnist: Any
) -> None:
    write_emnist(tmp_path, layout, emnist_files() | {name: content})
    with pytest.raises(ConfigError, match=said) as error:
        fetched(tmp_path, tmp_path / "out", emnist)
    place = {"archive": f"gzip.zip: gzip/{name}.gz: ", "packed": f"EMNIST/raw/{name}.gz: ", "unpacked": f"raw/{name}: "}
    assert place[layout] in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layout", ["archive", "packed"])
@pytest.mark.parametrize("cut", [-1, 15, 3])
def test_a_gzip_file_cut_short_is_one_sentence(layout: str, cut: int, tmp_path: Path, emnist: Any) -> None:
    whole = gzip.compress(idx(IMAGES["train"]), mtime=0)
    write_emnist(tmp_path, layout, emnist_files(), {f"{TRAIN_IMAGES}.gz": whole[:cut]})
    with pytest.raises(ConfigError, match=f"{TRAIN_IMAGES}.gz: not a complete gzip file"):
        fetched(tmp_path, tmp_path / "out", emnist)


def test_another_archive_is_refused_with_both_sums(tmp_path: Path, emnist: Any) -> None:
    raw = write_emnist(tmp_path, "archive", emnist_files())
    found = md5((raw / "gzip.zip").read_bytes())
    with pytest.raises(ConfigError, match=f"gzip.zip: the file is corrupt: its md5 is {found}, expected {emnist.md5}"):
        fetch("femnist", DatasetFacts.model_validate(FACTS["femnist"]), tmp_path / "out", tmp_path)


def test_a_missing_file_asks_for_the_archive(tmp_path: Path, emnist: Any) -> None:
    raw = write_emnist(tmp_path, "packed", emnist_files())
    (raw / f"{TRAIN_LABELS}.gz").unlink()
    with pytest.raises(ConfigError, match=f"EMNIST/raw/gzip.zip: the file does not exist; .*md5 {emnist.md5}"):
        fetched(tmp_path, tmp_path / "out", emnist)


class Offline:
    """A loader that remembers what it was asked for and finds no network."""

    asked: dict[str, Any]

    def __init__(self, folder: Path, **asked: Any) -> None:
        type(self).asked = asked
        raise OSError("no network")


def test_a_download_asks_for_the_split_by_class_and_names_the_archive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"could not be downloaded \(no network\).* holds EMNIST/raw/gzip.zip"):
        femnist.letters(Offline, tmp_path, None)
    assert Offline.asked == {"download": True, "split": "byclass"}


# ---------------------------------------------------------------- MNIST by writer

DIGITS = np.array([3, 1, 4, 1, 5, 9, 2], np.int64)  # 4 for training, 3 for the test
WRITERS = {"train": [2100, 7, 7, 2100], "test": [9, 2599, 9, 11, 11]}
MNIST = RawData(np.arange(7, dtype=np.uint8).reshape(7, 1, 1, 1), DIGITS, [described(b"", "MNIST/raw/x")], "a place")


def qmnist(root: Path, change: dict[str, np.ndarray[Any, Any]] | None = None, cut: int | None = None) -> Any:
    """QMNIST's tables below `root`, and a loader that knows their sums."""
    tables = {part: np.zeros((len(writers), 8), np.int32) for part, writers in WRITERS.items()}
    for part, writers in WRITERS.items():
        tables[part][:, 2] = writers
    tables["train"][:, 0], tables["test"][:, 0] = DIGITS[:4], [*DIGITS[4:], 8, 8]
    resources = {}
    (root / "QMNIST/raw").mkdir(parents=True)
    for part, table in (tables | (change or {})).items():
        name = f"qmnist-{part}-labels-idx2-int.gz"
        content = gzip.compress(idx(table), mtime=0)[:cut]
        (root / "QMNIST/raw" / name).write_bytes(content)
        resources[part] = [("https://nowhere/images.gz", ""), (f"https://nowhere/{name}", md5(content))]
    return SimpleNamespace(resources=resources)


@pytest.fixture
def small_test_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(femnist, "MNIST_TEST", 3)


@pytest.mark.usefixtures("small_test_part")
def test_digits_get_their_writers_and_rows_behind_the_test_images_are_left_out(tmp_path: Path) -> None:
    found = femnist.by_writer(MNIST, qmnist(tmp_path), tmp_path / "out", tmp_path)
    # 7, 9, 2100, 2599 in this order
    assert found.tables["users"].tolist() == [2, 0, 0, 2, 1, 3, 1]
    assert found.tables["users"].dtype == np.int64
    assert found.inputs is MNIST.inputs and found.labels is MNIST.labels
    assert [file.name for file in found.files] == [
        "MNIST/raw/x", *(f"QMNIST/raw/qmnist-{part}-labels-idx2-int.gz" for part in WRITERS)
    ]  # fmt: skip


@pytest.mark.usefixtures("small_test_part")
def test_writers_of_other_digits_are_refused(tmp_path: Path) -> None:
    other = np.zeros((4, 8), np.int32)
    other[:, 0] = [3, 1, 7, 7]
    with pytest.raises(ConfigError) as error:
        femnist.by_writer(MNIST, qmnist(tmp_path, {"train": other}), tmp_path / "out", tmp_path)
    assert str(error.value) == (
        "a place/QMNIST/raw/qmnist-train-labels-idx2-int.gz and a place/QMNIST/raw/qmnist-test-labels-idx2-int.gz: "
        "image 2 has class 7, but class 4 in MNIST (2 of 7 differ); put good copies of both there"
    )


@pytest.mark.usefixtures("small_test_part")
def test_too_few_rows_are_one_sentence(tmp_path: Path) -> None:
    few = {"train": np.zeros((3, 8), np.int32)}
    with pytest.raises(ConfigError, match="found 3 and 5 rows, which do not serve the 7 images of MNIST"):
        femnist.by_writer(MNIST, qmnist(tmp_path, few), tmp_path / "out", tmp_path)


def test_a_table_that_is_missing_corrupt_or_cut_is_named(tmp_path: Path) -> None:
    train = "QMNIST/raw/qmnist-train-labels-idx2-int.gz"
    loader = qmnist(tmp_path / "cut", cut=-4)
    with pytest.raises(ConfigError, match=f"{train}: not a complete gzip file"):
        femnist.by_writer(MNIST, loader, tmp_path / "out", tmp_path / "cut")
    (tmp_path / "cut" / train).write_bytes(b"other")
    with pytest.raises(ConfigError, match=f"{train}: the file is corrupt: its md5 is {md5(b'other')}"):
        femnist.by_writer(MNIST, loader, tmp_path / "out", tmp_path / "cut")
    (tmp_path / "cut" / train).unlink()
    with pytest.raises(ConfigError, match=f"{train}: the file does not exist"):
        femnist.by_writer(MNIST, loader, tmp_path / "out", tmp_path / "cut")


def test_tables_of_both_parts_are_downloaded(tmp_path: Path) -> None:
    asked: list[Any] = []

    class Loader:
        resources = qmnist(tmp_path / "download").resources

        def __init__(self, folder: Path, **choice: Any) -> None:
            asked.append((folder, choice))

    with pytest.raises(ConfigError, match="found 4 and 5 rows"):
        femnist.by_writer(MNIST, Loader, tmp_path, None)
    assert asked == [(tmp_path / "download", {"download": True, "train": train}) for train in (True, False)]


def test_the_real_digits_have_836_writers_of_whom_none_is_in_both_parts(tmp_path: Path) -> None:
    root = data_root()
    if root is None or not all((root / place).is_dir() for place in ("MNIST/raw", "QMNIST/raw")):
        pytest.skip("FEDBAYES_DATA names no folder with MNIST/raw and QMNIST/raw")
    fetch("mnist-by-writer", DatasetFacts.model_validate(FACTS["mnist-by-writer"]), tmp_path, root)
    found = load(tmp_path)
    users = found.tables["users"]
    train, test = (set(part.tolist()) for part in (users[:60_000], users[60_000:]))
    assert (len(train), len(test), train & test) == (539, 297, set())
    sizes = np.bincount(users)
    assert (len(sizes), sizes.min(), sizes.max()) == (836, 8, 131)
    assert np.array_equal(
        samples_of(found.labels, found.manifest["test_per_class"]).is_test, np.arange(70_000) >= 60_000
    )
