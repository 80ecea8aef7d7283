"""Samples out of distribution: images of another dataset, shown to a model that has never seen their classes.

FedUAB, Figure 9, shows CIFAR-100 images to a model of CIFAR-10 and says that their epistemic uncertainty is higher
unless they resemble a known class; so whoever measures that must know which ones do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.fetch import load
from fedbayes.data.splits import dataset_samples
from fedbayes.reading import ConfigError
from fedbayes.split_rules import Pool

# Fine classes of CIFAR-100 (their labels: positions in the alphabet of names) and the class of CIFAR-10 that each
# resembles. Our own choice by meaning and shape, and debatable: no paper has such a list. The two datasets share no
# class. Left out although related: bicycle, motorcycle, tank and train (no truck), camel and kangaroo (no deer),
# rabbit and squirrel (no cat), bear and raccoon (no dog), crocodile and lizard (no frog), whale and shark (no ship).
LIKE_CIFAR10 = {
    13: ("bus", "truck"),
    58: ("pickup_truck", "truck"),  # CIFAR-10 says that neither its trucks nor its automobiles have any
    81: ("streetcar", "truck"),
    89: ("tractor", "truck"),
    42: ("leopard", "cat"),
    43: ("lion", "cat"),
    88: ("tiger", "cat"),
    34: ("fox", "dog"),
    97: ("wolf", "dog"),
    19: ("cattle", "horse"),
}

# By (dataset trained on, dataset of the outsiders): labels of the latter that resemble a class of the former.
LOOKALIKES = {("cifar10", "cifar100"): frozenset(LIKE_CIFAR10)}


class Outsiders(NamedTuple):
    """Samples of classes that a model does not know."""

    inputs: NDArray[Any]  # (sample, ...), as stored
    labels: NDArray[np.int64]  # (sample,), in their own dataset
    places: NDArray[np.int64]  # (sample,): where it stands in its dataset
    resembles: NDArray[np.bool_]  # (sample,): the class looks like one that the model knows


def outsiders(
    folder: Path, trained_on: Path, part: Pool = "test", lookalikes: Literal["keep", "drop"] = "keep"
) -> Outsiders:
    """Samples of a dataset that are out of distribution for models of another one, in their dataset's order.

    Args:
        folder: the dataset of the outsiders, as `fetch` made it.
        trained_on: the dataset the model knows, likewise.
        part: which part of the outsiders' dataset.
        lookalikes: whether classes that resemble a known one are kept or dropped.
    """
    others, known = load(folder), load(trained_on)
    if others.manifest["sha256"] == known.manifest["sha256"]:
        raise ConfigError(f"{folder}: the model was trained on this very dataset; outsiders must come from another one")
    if others.inputs.shape[1:] != known.inputs.shape[1:]:
        raise ConfigError(
            f"{folder}: samples of the shape {others.inputs.shape[1:]} cannot be shown to a model of "
            f"{known.manifest['name']!r}, which takes {known.inputs.shape[1:]}"
        )
    if part != "all" and others.manifest["test_per_class"] is None:
        raise ConfigError(
            f"{folder}: the dataset has no test part of its own (test_per_class in config/datasets.yaml), so its part "
            f"{part!r} is not known; allowed: 'all'"
        )
    rows = dataset_samples(others).rows(part)
    like = LOOKALIKES.get((known.manifest["name"], others.manifest["name"]), frozenset())
    resembles = np.isin(others.labels[rows], sorted(like))
    if lookalikes == "drop":
        rows, resembles = rows[~resembles], resembles[~resembles]
    return Outsiders(others.inputs[rows], others.labels[rows], rows, resembles)
