"""Split files: index arrays and a manifest in one `.npz` whose bytes depend on nothing but their content."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.arrays import npz_bytes, read_npz
from fedbayes.data.fetch import Dataset, load
from fedbayes.data.partition import partition, samples_of, server_samples
from fedbayes.data.rules.types import ClientIndices, Indices, Samples
from fedbayes.io import replacing
from fedbayes.reading import ConfigError
from fedbayes.split_rules import Split

LIST = "config/splits.csv"
COLUMNS = (
    "path", "dataset", "dataset_sha256", "rule", "split", "seed", "clients", "train", "val", "test",
    "sha256", "md5", "bytes",
)  # fmt: skip


def make_split(
    dataset_folder: Path, split: Split, seed: int, path: Path, committed_row: Mapping[str, str] | None
) -> None:
    """Write a split file, unless `config/splits.csv` lists it with other bytes.

    Args:
        dataset_folder: what `fetch` made.
        split: the rule and its numbers.
        seed: seed of the split.
        path: file to write.
        committed_row: the file's row of `config/splits.csv`, or None for a split that is not listed.
    """
    try:
        content = split_bytes(dataset_folder, split, seed)
    except ConfigError as reason:
        raise ConfigError(f"{path}: {reason}") from None
    found = hashlib.sha256(content).hexdigest()
    if committed_row is not None and committed_row["sha256"] != found:
        raise ConfigError(
            f"{LIST}: {committed_row['path']}: expected a split with sha256 {committed_row['sha256']}, but this code "
            f"and dataset make {found}; undo the change of either, or, if it is meant, run 'make commit-splits' and "
            f"commit {LIST} and data.dvc"
        )
    with replacing(path) as part:
        part.write_bytes(content)


def split_bytes(dataset_folder: Path, split: Split, seed: int) -> bytes:
    """The content of a split file."""
    dataset = load(dataset_folder)
    samples = dataset_samples(dataset)
    clients = partition(samples, split, seed)
    manifest = {
        "dataset": dataset.manifest["name"],
        "dataset_sha256": dataset.manifest["sha256"],
        "rule": split.rule,
        "split": split.model_dump(mode="json"),
        "seed": seed,
        "clients": len(clients.train),
        **{part: sum(map(len, indices)) for part, indices in clients._asdict().items()},
    }
    arrays: dict[str, NDArray[Any]] = {}
    if split.server_share:
        server = server_samples(samples, split, seed)
        manifest["server"], arrays["server_index"] = len(server), server.astype("<i8")
    for part, indices in clients._asdict().items():
        arrays[f"{part}_index"] = np.concatenate(indices).astype("<i8")
        arrays[f"{part}_offsets"] = np.cumsum([0, *map(len, indices)], dtype="<i8")
    return npz_bytes(arrays | {"manifest": np.array(canonical(manifest), dtype="<U")})


def dataset_samples(dataset: Dataset) -> Samples:
    """What split rules look at, of a fetched dataset."""
    return samples_of(dataset.labels, dataset.manifest["test_per_class"], dataset.tables.get("users"))


def read_split(path: Path) -> tuple[ClientIndices, dict[str, Any]]:
    """The indices and the manifest in a split file."""
    names = [f"{part}_{kind}" for part in ClientIndices._fields for kind in ("index", "offsets")]
    arrays = read_npz(path, *names, "manifest")
    parts = {part: _cut(arrays[f"{part}_index"], arrays[f"{part}_offsets"]) for part in ClientIndices._fields}
    return ClientIndices(**parts), json.loads(str(arrays["manifest"]))


def read_server_samples(path: Path) -> Indices:
    """What the server holds by a split file; empty where the split gives it nothing."""
    return read_npz(path).get("server_index", np.empty(0, np.int64))


def read_split_of(dataset: Dataset, path: Path) -> ClientIndices:
    """The indices in a split file, refused if they are positions in other arrays than the dataset's."""
    indices, manifest = read_split(path)
    check_made_for(path, manifest, dataset.manifest)
    return indices


def check_made_for(path: Path, manifest: Mapping[str, Any], dataset_manifest: Mapping[str, Any]) -> None:
    """Refuse a split of another version of its dataset: its positions would mean other samples."""
    if manifest["dataset_sha256"] != dataset_manifest["sha256"]:
        raise ConfigError(f"{path}: made for another version of the dataset {manifest['dataset']!r}; make it again")


def split_row(path: str, content: bytes) -> dict[str, str]:
    """The row of `config/splits.csv` that describes a split file, made from its content alone."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        manifest = json.loads(str(arrays["manifest"]))
    row = manifest | {
        "path": path,
        "split": canonical(manifest["split"]),
        "sha256": hashlib.sha256(content).hexdigest(),
        "md5": hashlib.md5(content, usedforsecurity=False).hexdigest(),
        "bytes": len(content),
    }
    return {column: str(row[column]) for column in COLUMNS}


def _cut(index: Indices, offsets: Indices) -> tuple[Indices, ...]:
    return tuple(index[first:last] for first, last in pairwise(offsets))


def canonical(value: object) -> str:
    """JSON that is the same for the same content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
