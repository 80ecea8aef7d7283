"""`resources/<dataset>/`: made once from the raw files, checked against `config/datasets.yaml`, read ever after."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbayes.config import ArrayFacts
from fedbayes.data.arrays import npz_bytes, read_npy, read_npz
from fedbayes.data.datasets import READERS
from fedbayes.data.sources import RawData
from fedbayes.io import read_json, replacing, write_json
from fedbayes.reading import ConfigError, choice, complain

FACTS = "config/datasets.yaml"


class Dataset(NamedTuple):
    """A fetched dataset: inputs (sample, ...), int64 labels (sample,), its manifest and its other tables by name."""

    inputs: NDArray[Any]
    labels: NDArray[np.int64]
    manifest: dict[str, Any]
    tables: Mapping[str, NDArray[Any]]


def fetch(name: str, facts: ArrayFacts, target: Path, data_root: Path | None) -> None:
    """Write `inputs.npy`, `labels.npy`, `tables.npz` and, last, `manifest.json` of a dataset into `target`.

    Args:
        name: the dataset's name in `config/datasets.yaml`.
        facts: what the arrays must agree with.
        target: folder to write; a download goes there too.
        data_root: the user's folder in torchvision's layout, which is only read; None lets torchvision download.
    """
    if name not in READERS:
        raise complain(FACTS, name, "no reader in src/fedbayes/data/datasets.py: " + choice(name, READERS))
    raw = READERS[name](target, data_root)
    _verify_labels(name, facts, raw)
    sha256 = array_digest(raw.inputs, raw.labels, raw.tables)
    _verify(name, facts, raw, sha256)
    _write_array(target / "inputs.npy", raw.inputs)
    _write_array(target / "labels.npy", raw.labels)
    with replacing(target / "tables.npz") as part:
        part.write_bytes(npz_bytes(raw.tables))
    write_json(
        target / "manifest.json",
        {
            "name": name,
            "sha256": sha256,
            "samples": len(raw.labels),
            "per_class": np.bincount(raw.labels).tolist(),
            "test_per_class": list(facts.test_per_class) if facts.test_per_class else None,
            "tables": sorted(raw.tables),
            "files": [file._asdict() for file in raw.files],
            "read_from": raw.read_from,
        },
    )


def array_digest(
    inputs: NDArray[Any], labels: NDArray[np.int64], tables: Mapping[str, NDArray[Any]] | None = None
) -> str:
    """sha256 of the bytes of the inputs, those of the labels, and the name and bytes of every other table."""
    digest = hashlib.sha256(_bytes(inputs))
    digest.update(_bytes(labels))
    for name, array in sorted((tables or {}).items()):
        digest.update(name.encode())
        digest.update(_bytes(array))
    return digest.hexdigest()


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data


def _verify_labels(name: str, facts: ArrayFacts, raw: RawData) -> None:
    """Refuse labels that are not 0, 1, ... up to the last class, each at least once."""
    if len(raw.labels) == 0 or raw.labels.min() < 0:
        raise complain(FACTS, name, f"what {raw.read_from} holds has no labels, or labels below 0")
    if raw.labels.max() >= facts.classes:
        raise complain(
            FACTS, name, f"what {raw.read_from} holds has label {raw.labels.max()}; allowed: 0 to {facts.classes - 1}"
        )
    absent = np.flatnonzero(np.bincount(raw.labels, minlength=facts.classes) == 0)
    if len(absent):
        raise complain(FACTS, name, f"what {raw.read_from} holds has no sample of class {absent[0]}")


def _verify(name: str, facts: ArrayFacts, raw: RawData, sha256: str) -> None:
    """Refuse arrays that are not those `config/datasets.yaml` describes, the plainest difference first.

    What the facts leave open (data that nobody here has seen) is recorded in the manifest, not compared.
    """
    found = {
        "shape": tuple(raw.inputs.shape[1:]),
        "per_class": tuple(np.bincount(raw.labels).tolist()),
        "sha256": sha256,
    }
    for key, value in found.items():
        expected = getattr(facts, key)
        if expected is not None and value != expected:
            raise complain(FACTS, f"{name}.{key}", f"expected {expected}, but what {raw.read_from} holds gives {value}")


def _write_array(path: Path, array: NDArray[Any]) -> None:
    with replacing(path) as part, part.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


def is_fetched(target: Path, facts: ArrayFacts) -> bool:
    """Whether `target` holds what `fetch` would write now."""
    if not (target / "manifest.json").exists():
        return False
    manifest = read_json(target / "manifest.json")
    parts = list(facts.test_per_class) if facts.test_per_class else None
    whole = all((target / name).exists() for name in ("inputs.npy", "labels.npy", "tables.npz"))
    return whole and manifest["sha256"] == facts.sha256 and manifest.get("test_per_class") == parts


def load(target: Path) -> Dataset:
    """The dataset that `fetch` wrote into `target`; inputs stay on disk until they are touched."""
    manifest = _manifest(target)
    inputs = read_npy(target / "inputs.npy", on_disk=True)
    labels = read_npy(target / "labels.npy")
    if not len(inputs) == len(labels) == manifest["samples"]:
        raise ConfigError(
            f"{target}: the manifest counts {manifest['samples']} samples, but there are {len(inputs)} inputs and "
            f"{len(labels)} labels; delete the folder and run the rule 'fetch' again"
        )
    tables = read_npz(target / "tables.npz", *manifest["tables"])
    if "users" in tables and len(tables["users"]) != len(labels):
        raise ConfigError(
            f"{target / 'tables.npz'}: has users of {len(tables['users'])} samples, but there are {len(labels)}; "
            "delete the folder and run the rule 'fetch' again"
        )
    return Dataset(inputs, labels, manifest, tables)


def _manifest(target: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = read_json(target / "manifest.json")
    except FileNotFoundError:
        raise ConfigError(f"{target}: no fetched dataset (manifest.json is missing); run the rule 'fetch'") from None
    except ValueError as error:
        raise ConfigError(
            f"{target / 'manifest.json'}: not JSON ({error}); delete the folder and run the rule 'fetch' again"
        ) from None
    return found
