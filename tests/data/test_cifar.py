"""CIFAR's pickled batches: tiny files in the real format, other orders of the rows, and files that are not CIFAR."""

from __future__ import annotations

import hashlib
import io
import pickle
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from fedbayes.config import DatasetFacts
from fedbayes.data import cifar, sources
from fedbayes.data.fetch import fetch
from fedbayes.reading import ConfigError

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))
NAMES = ("data_batch_1", "data_batch_2", "test_batch")


def batch(seed: int, rows: int = 4) -> dict[str, Any]:
    stream = np.random.default_rng(seed)
    labels = stream.integers(3, size=rows).tolist()
    return {
        "labels": labels,
        "data": stream.integers(256, size=(rows, 3072), dtype=np.uint8),
        "filenames": ["x"] * rows,
    }


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def pickled(content: Any) -> bytes:
    return pickle.dumps(content, protocol=2)


def loader_of(root: Path, contents: dict[str, bytes]) -> Any:
    """Files under `root` and a stand-in for torchvision's class that knows their sums."""
    folder = root / "cifar-tiny"
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    sums = [(name, md5(contents[name])) for name in NAMES]
    return SimpleNamespace(
        base_folder="cifar-tiny", filename="cifar-tiny.tar.gz", tgz_md5="", train_list=sums[:2], test_list=sums[2:]
    )


@pytest.fixture
def tiny(tmp_path: Path) -> tuple[Path, Any]:
    root = tmp_path / "data"
    return root, loader_of(root, {name: pickled(batch(seed)) for seed, name in enumerate(NAMES)})


def test_batches_come_in_order_with_channels_first(tiny: tuple[Path, Any], tmp_path: Path) -> None:
    root, loader = tiny
    found = cifar.read(loader, "labels", tmp_path, root)
    assert found.inputs.shape == (12, 3, 32, 32) and found.labels.dtype == np.int64
    assert found.labels.tolist() == [label for seed in range(3) for label in batch(seed)["labels"]]
    # A row is 1,024 red, then green, then blue pixels.
    assert found.inputs[5, 1, 0, 2] == batch(1)["data"][1, 1024 + 2]
    assert [file.name for file in found.files] == [f"cifar-tiny/{name}" for name in NAMES]


def test_the_archive_is_read_in_place(tiny: tuple[Path, Any], tmp_path: Path) -> None:
    root, loader = tiny
    expected = cifar.read(loader, "labels", tmp_path, root)
    archive = root / loader.filename
    with tarfile.open(archive, "w:gz") as members:
        members.add(root / loader.base_folder, loader.base_folder)
    for file in (root / loader.base_folder).iterdir():
        file.unlink()
    loader.tgz_md5 = md5(archive.read_bytes())
    found = cifar.read(loader, "labels", tmp_path, root)
    assert np.array_equal(found.inputs, expected.inputs) and list((root / loader.base_folder).iterdir()) == []
    archive.write_bytes(archive.read_bytes()[:-7])
    with pytest.raises(ConfigError, match=rf"cifar-tiny.tar.gz: the file is corrupt.*expected {loader.tgz_md5}"):
        cifar.read(loader, "labels", tmp_path, root)


def test_copies_in_another_order_are_one_dataset(tiny: tuple[Path, Any], tmp_path: Path) -> None:
    root, loader = tiny
    both = {key: [row for seed in (0, 1) for row in batch(seed)[key]] for key in ("labels", "data")}
    order = np.random.default_rng(5).permutation(8)
    shuffled = [{key: [both[key][i] for i in rows] for key in both} for rows in (order[:5], order[5:])]
    contents = [pickled(part | {"data": np.stack(part["data"])}) for part in shuffled] + [pickled(batch(2))]
    other = tmp_path / "other"
    loader_of(other, dict(zip(NAMES, contents, strict=True)))
    one, two = (cifar.read(loader, "labels", tmp_path, place, any_order=True) for place in (root, other))
    assert np.array_equal(one.inputs, two.inputs) and np.array_equal(one.labels, two.labels)
    assert sorted(one.labels[:8]) == one.labels[:8].tolist() and sorted(one.labels[8:]) == one.labels[8:].tolist()
    with pytest.raises(ConfigError, match="data_batch_1: the file is corrupt"):
        cifar.read(loader, "labels", tmp_path, other)


class Evil:
    """A pickle of it asks for a call of `print`."""

    def __reduce__(self) -> Any:
        return print, ("harm done",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (pickled({"labels": [0], "data": Evil()}), "builtins.print, which no batch of CIFAR needs|__builtin__.print"),
        (pickled(batch(0))[:500], "not a pickled batch"),
        (b"", "not a pickled batch"),
        (pickled([1, 2]), "expected a dict with the entries 'data' and 'labels'"),
        (pickled(batch(0) | {"data": np.zeros((4, 3071), np.uint8)}), "expected uint8 rows of 3072 pixels"),
        (pickled(batch(0) | {"data": np.zeros((4, 3072))}), "expected uint8 rows of 3072 pixels"),
        (pickled(batch(0) | {"labels": [1]}), "4 images and 1 labels"),
    ],
)
def test_what_is_no_batch_is_one_sentence_and_runs_nothing(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "data"
    loader = loader_of(root, {name: content for name in NAMES})
    with pytest.raises(ConfigError, match=said) as error:
        cifar.read(loader, "labels", tmp_path, root)
    assert "data_batch_1" in str(error.value) and "\n" not in str(error.value)
    assert "harm" not in capsys.readouterr().out


def test_a_missing_batch_is_named_with_its_place(tiny: tuple[Path, Any], tmp_path: Path) -> None:
    root, loader = tiny
    (root / loader.base_folder / "test_batch").unlink()
    with pytest.raises(ConfigError, match="cifar-tiny/test_batch: the file does not exist; put it there"):
        cifar.read(loader, "labels", tmp_path, root)


def test_a_download_that_fails_names_the_archive(tmp_path: Path) -> None:
    class Offline(SimpleNamespace):
        filename = "cifar-tiny.tar.gz"

        def __init__(self, root: Path, download: bool) -> None:
            raise OSError("no network")

    with pytest.raises(ConfigError, match=r"Offline could not be downloaded \(no network\).*holds cifar-tiny.tar.gz"):
        cifar.read(Offline, "labels", tmp_path, None)


def test_sorting_by_content_forgets_the_order_and_keeps_the_rows() -> None:
    stream = np.random.default_rng(0)
    images, labels = stream.integers(2, size=(40, 3, 1, 1), dtype=np.uint8), stream.integers(2, size=40)
    order = stream.permutation(40)
    one, two = cifar.by_content(images, labels), cifar.by_content(images[order], labels[order])
    assert np.array_equal(one[0], two[0]) and np.array_equal(one[1], two[1])
    rows = [sorted((int(y), x.tobytes()) for x, y in zip(*part, strict=True)) for part in ((images, labels), one)]
    assert rows[0] == rows[1]


def test_members_of_an_archive_never_touch_the_disk(tiny: tuple[Path, Any], tmp_path: Path) -> None:
    root, loader = tiny
    archive = root / loader.filename
    with tarfile.open(archive, "w:gz") as members:
        members.add(root / loader.base_folder, loader.base_folder)
        outside = tarfile.TarInfo("../outside")
        outside.size = 4
        members.addfile(outside, io.BytesIO(b"evil"))
    for file in (root / loader.base_folder).iterdir():
        file.unlink()
    loader.tgz_md5 = md5(archive.read_bytes())
    assert len(cifar.read(loader, "labels", tmp_path, root).labels) == 12
    assert not (root.parent / "outside").exists()


def test_all_of_cifar10_is_resident_in_little_memory(tmp_path: Path) -> None:
    """60,000 images as bytes, in a process of its own: well below 1 GiB, Python and PyTorch included."""
    root = sources.data_root()
    if root is None or not (root / "cifar-10-batches-py").exists():
        pytest.skip("FEDBAYES_DATA names no folder with cifar-10-batches-py")
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of memory is read from Linux's /proc")
    fetch("cifar10", DatasetFacts.model_validate(FACTS["cifar10"]), tmp_path, root)
    code = (
        "import re, sys, numpy as np, torch; from pathlib import Path; from fedbayes.data.fetch import load;"
        "from fedbayes.federation.inputs import normalise; from fedbayes.federation.resident import lay_out;"
        "dataset = load(Path(sys.argv[1])); rows = np.array_split(np.random.permutation(60000), 50);"
        "data = lay_out(dataset.inputs, dataset.labels, [r[:120] for r in rows], [r[120:] for r in rows], 10,"
        " normalise([0.5], [0.5], torch.float32), torch.device('cpu'));"
        "assert data.inputs.shape == (60000, 3, 32, 32) and data.samples(data.train.rows[:10, :32]).shape[0] == 10;"
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2**20, "kilobytes"
