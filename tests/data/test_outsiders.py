"""Outsiders: the right part of another dataset, and which of its classes resemble known ones."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import yaml

from artefacts import ROOT
from fedbayes.data import sources
from fedbayes.data.outsiders import LIKE_CIFAR10, LOOKALIKES, outsiders
from fedbayes.reading import ConfigError
from fetched import write_dataset

KNOWN = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}


def dataset(
    folder: Path, name: str, classes: int, shape: tuple[int, ...] = (3, 2, 2), test: list[int] | None = None
) -> Path:
    """A fetched dataset, three samples a class, class by class; the first pixel is the position."""
    labels = np.repeat(np.arange(classes), 3)
    inputs = np.zeros((len(labels), *shape), np.int32)
    inputs[(..., *(0,) * len(shape))] = np.arange(len(labels))
    return write_dataset(folder / name, inputs, labels, name=name, sha256=name, test_per_class=test)


@pytest.fixture
def cifars(tmp_path: Path) -> tuple[Path, Path]:
    return dataset(tmp_path, "cifar100", 100, test=[1] * 100), dataset(tmp_path, "cifar10", 10, test=[1] * 10)


def test_outsiders_are_the_test_part_in_order(cifars: tuple[Path, Path]) -> None:
    found = outsiders(*cifars)
    assert found.inputs[:, 0, 0, 0].tolist() == list(range(2, 300, 3)) and found.inputs.shape[1:] == (3, 2, 2)
    assert found.labels.tolist() == list(range(100)) and found.places.tolist() == list(range(2, 300, 3))
    assert np.flatnonzero(found.resembles).tolist() == sorted(LIKE_CIFAR10)


def test_other_parts_can_be_asked_for(cifars: tuple[Path, Path]) -> None:
    assert len(outsiders(*cifars, part="train").labels) == 200 and len(outsiders(*cifars, part="all").labels) == 300


def test_classes_that_resemble_known_ones_can_be_left_out(cifars: tuple[Path, Path]) -> None:
    found = outsiders(*cifars, lookalikes="drop")
    assert set(range(100)) - set(found.labels) == set(LIKE_CIFAR10) and not found.resembles.any()
    assert found.inputs[:, 0, 0, 0].tolist() == [3 * label + 2 for label in found.labels]


def test_only_the_listed_pair_has_lookalikes(cifars: tuple[Path, Path]) -> None:
    cifar100, cifar10 = cifars
    assert ("cifar10", "cifar100") in LOOKALIKES
    assert not outsiders(cifar10, cifar100).resembles.any()


def test_lookalikes_are_in_the_alphabets_order_and_resemble_classes_of_cifar10() -> None:
    names, resembled = zip(*(pair for _, pair in sorted(LIKE_CIFAR10.items())), strict=True)
    assert list(names) == sorted(names) and not set(names) & KNOWN and set(resembled) <= KNOWN


def test_labels_of_lookalikes_are_those_that_cifar100_gives_their_names() -> None:
    root = sources.data_root()
    if root is None or not (root / "cifar-100-python/meta").exists():
        pytest.skip("FEDBAYES_DATA names no folder with cifar-100-python")
    meta = (root / "cifar-100-python/meta").read_bytes()
    # torchvision's sum: no other pickle is opened.
    assert sources.described(meta, "meta").md5 == "7973b15100ade9c7d40fb424638fde48"
    fine = pickle.loads(meta, encoding="latin1")["fine_label_names"]
    facts = yaml.safe_load((ROOT / "config/datasets.yaml").read_text(encoding="utf-8"))
    assert facts["cifar100"]["class_names"] == [name.replace("_", " ") for name in fine]
    assert {label: fine[label] for label in LIKE_CIFAR10} == {label: name for label, (name, _) in LIKE_CIFAR10.items()}


def test_what_cannot_be_an_outsider_is_one_sentence(tmp_path: Path, cifars: tuple[Path, Path]) -> None:
    _, cifar10 = cifars
    with pytest.raises(ConfigError, match=r"cifar10: the model was trained on this very dataset; outsiders must"):
        outsiders(cifar10, cifar10)
    digits = dataset(tmp_path, "mnist", 10, shape=(1, 2, 2), test=[1] * 10)
    with pytest.raises(
        ConfigError,
        match=r"mnist: samples of the shape \(1, 2, 2\) cannot be shown to a model of 'cifar10', which takes \(3, 2, 2",
    ):
        outsiders(digits, cifar10)
    whole = dataset(tmp_path, "pictures", 4)
    with pytest.raises(ConfigError, match=r"pictures: the dataset has no test part of its own .*; allowed: 'all'"):
        outsiders(whole, cifar10)
    assert len(outsiders(whole, cifar10, part="all").labels) == 12
