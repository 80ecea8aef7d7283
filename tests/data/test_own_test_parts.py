"""`test_per_class` of the facts marks the published test images and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from fedbayes.data.datasets import READERS
from fedbayes.data.partition import samples_of
from fedbayes.data.sources import data_root

FACTS = yaml.safe_load((Path(__file__).parents[2] / "config/datasets.yaml").read_text(encoding="utf-8"))
# Training images, and a place whose presence says that a dataset is there.
REAL = {
    "mnist": (60_000, "MNIST/raw"),
    "fashion-mnist": (60_000, "FashionMNIST/raw"),
    "cifar10": (50_000, "cifar-10-batches-py"),
    "cifar100": (50_000, "cifar-100-python"),
}


@pytest.mark.parametrize("name", REAL)
def test_the_test_part_is_what_comes_behind_the_training_images(name: str, tmp_path: Path) -> None:
    training, place = REAL[name]
    root = data_root()
    if root is None or not (root / place).exists():
        pytest.skip(f"FEDBAYES_DATA names no folder with {place}")
    labels = READERS[name](tmp_path, root).labels
    is_test = samples_of(labels, FACTS[name]["test_per_class"]).is_test
    assert np.array_equal(is_test, np.arange(len(labels)) >= training)


def test_the_embedded_digits_have_a_fifth_of_each_class_as_test_part(tmp_path: Path) -> None:
    labels = READERS["mnist-5k"](tmp_path, None).labels
    is_test = samples_of(labels, FACTS["mnist-5k"]["test_per_class"]).is_test
    assert np.bincount(labels[is_test]).tolist() == [100] * 10
    for label in range(10):
        own = is_test[labels == label]
        assert own[-100:].all() and not own[:-100].any()
