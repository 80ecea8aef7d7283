"""`resources/<dataset>/`: made once from the raw files, checked against `config/datasets.yaml`, read ever after."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.config import ArrayFacts
from fedbayes.data.datasets import READERS
from fedbayes.data.sources import RawData
from fedbayes.io import read_json, replacing, write_json
from fedbayes.reading import ConfigError, choice, complain

FACTS = "config/datasets.yaml"


class Dataset(NamedTuple):
    """A fetched dataset: uint8 images (sample, channel, height, width), int64 labels (sample,) and its manifest."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    manifest: dict[str, Any]


def fetch(name: str, facts: ArrayFacts, target: Path, data_root: Path | None) -> None:
    """Write `images.npy`, `labels.npy` and, last, `manifest.json` of a dataset into `target`.

    Args:
        name: the dataset's name in `config/datasets.yaml`.
        facts: what the arrays must agree with.
        target: folder to write; a download goes there too.
        data_root: the user's folder in torchvision's layout, which is only read; None lets torchvision download.
    """
    if name not in READERS:
        raise complain(FACTS, name, "no reader in src/fedbayes/data/datasets.py: " + choice(name, READERS))
    raw = READERS[name](target, data_root)
    if len(raw.labels) == 0 or raw.labels.min() < 0:
        raise complain(FACTS, name, f"what {raw.read_from} holds has no labels, or labels below 0")
    sha256 = array_digest(raw.images, raw.labels)
    _verify(name, facts, raw, sha256)
    _write_array(target / "images.npy", raw.images)
    _write_array(target / "labels.npy", raw.labels)
    write_json(
        target / "manifest.json",
        {
            "name": name,
            "sha256": sha256,
            "samples": len(raw.labels),
            "per_class": np.bincount(raw.labels).tolist(),
            "files": [file._asdict() for file in raw.files],
            "read_from": raw.read_from,
        },
    )


def array_digest(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> str:
    """sha256 of the bytes of the images followed by those of the labels."""
    digest = hashlib.sha256(np.ascontiguousarray(images).data)
    digest.update(np.ascontiguousarray(labels, dtype="<i8").data)
    return digest.hexdigest()


def _verify(name: str, facts: ArrayFacts, raw: RawData, sha256: str) -> None:
    """Refuse arrays that are not those `config/datasets.yaml` describes, the plainest difference first."""
    found = {
        "shape": tuple(raw.images.shape[1:]),
        "per_class": tuple(np.bincount(raw.labels).tolist()),
        "sha256": sha256,
    }
    for key, value in found.items():
        expected = getattr(facts, key)
        if value != expected:
            raise complain(FACTS, f"{name}.{key}", f"expected {expected}, but what {raw.read_from} holds gives {value}")


def _write_array(path: Path, array: NDArray[Any]) -> None:
    with replacing(path) as part, part.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


def load(target: Path) -> Dataset:
    """The dataset that `fetch` wrote into `target`; images stay on disk until they are touched."""
    try:
        manifest = read_json(target / "manifest.json")
    except FileNotFoundError:
        raise ConfigError(f"{target}: no fetched dataset (manifest.json is missing); run the rule 'fetch'") from None
    images = np.load(target / "images.npy", mmap_mode="r", allow_pickle=False)
    labels = np.load(target / "labels.npy", allow_pickle=False)
    if not len(images) == len(labels) == manifest["samples"]:
        raise ConfigError(
            f"{target}: the manifest counts {manifest['samples']} samples, but there are {len(images)} images and "
            f"{len(labels)} labels; delete the folder and run the rule 'fetch' again"
        )
    return Dataset(images, labels, manifest)
