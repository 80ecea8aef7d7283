"""Shift files: the shifted samples of one split, and where each of them belongs in the dataset."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.data.arrays import npz_bytes, read_npz
from fedbayes.data.corruptions import noisy
from fedbayes.data.fetch import Dataset, load
from fedbayes.data.rules.types import ClientIndices, Indices
from fedbayes.data.splits import canonical, read_split_of
from fedbayes.io import file_sha256, replacing
from fedbayes.reading import ConfigError
from fedbayes.shifts import NoisyClients

LIBRARY = "imagecorruptions-imaug"


def make_shift(dataset_folder: Path, split_file: Path, shift: NoisyClients, seed: int, path: Path) -> None:
    """Write the samples that the clients of a split hold, each as its client's noise model shows it.

    Args:
        dataset_folder: what `fetch` made.
        split_file: what `partition` made; each sample must be at one client only.
        shift: who gets which noise.
        seed: of the choice and of the noise.
        path: file to write.
    """
    dataset = load(dataset_folder)
    held = _held(split_file, read_split_of(dataset, split_file))
    images, models = noisy(dataset.inputs, held, shift, seed)
    manifest = _origin(dataset, split_file, shift, seed) | {
        "noise": [str(model) for model in models],
        "library": f"{LIBRARY} {version(LIBRARY)}",
    }
    content = npz_bytes(
        {
            "samples": np.concatenate(held).astype("<i8"),
            "inputs": images,
            "manifest": np.array(canonical(manifest), dtype="<U"),
        }
    )
    with replacing(path) as part:
        part.write_bytes(content)


def shifted(dataset: Dataset, split_file: Path, shift: NoisyClients, seed: int, path: Path) -> NDArray[Any]:
    """The inputs of the whole dataset, those that clients hold replaced by what a shift file has in their place."""
    arrays = read_npz(path, "samples", "inputs", "manifest")
    manifest = json.loads(str(arrays["manifest"]))
    for key, expected in _origin(dataset, split_file, shift, seed).items():
        if manifest[key] != expected:
            raise ConfigError(f"{path}: made with another {key}; delete the file to have it made again")
    inputs = np.array(dataset.inputs)
    inputs[arrays["samples"]] = arrays["inputs"]
    return inputs


def read_noise(path: Path) -> dict[str, Any]:
    """What a shift file says of itself; under `noise` the noise model of each client."""
    found: dict[str, Any] = json.loads(str(read_npz(path, "manifest")["manifest"]))
    return found


def _origin(dataset: Dataset, split_file: Path, shift: NoisyClients, seed: int) -> dict[str, Any]:
    """All that a shift file hangs on."""
    return {
        "dataset": dataset.manifest["sha256"],
        "split": file_sha256(split_file),
        "shift": shift.model_dump(mode="json"),
        "seed": seed,
    }


def _held(split_file: Path, clients: ClientIndices) -> list[Indices]:
    """All samples of each client: those for training, then validation, then test."""
    held = [np.concatenate(parts) for parts in zip(*clients, strict=True)]
    counts = np.bincount(np.concatenate(held))
    if counts.max() > 1:
        raise ConfigError(
            f"{split_file}: sample {counts.argmax()} is used {counts.max()} times; noisy clients need a split in which "
            "each sample is at one client only, as it can show the noise of one only"
        )
    return held
