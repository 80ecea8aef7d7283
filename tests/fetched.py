"""A fetched dataset written by hand, as the rule `fetch` would leave it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedbayes.data.arrays import npz_bytes
from fedbayes.io import write_json


def write_dataset(folder: Path, inputs: Any, labels: Any, **manifest: Any) -> Path:
    """Write arrays and a manifest; what `manifest` does not say is plain."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "inputs.npy", inputs)
    np.save(folder / "labels.npy", np.asarray(labels, np.int64))
    (folder / "tables.npz").write_bytes(npz_bytes({}))
    plain = {"name": "toy", "sha256": "ab" * 32, "samples": len(labels), "per_class": np.bincount(labels).tolist()}
    write_json(folder / "manifest.json", plain | {"test_per_class": None, "tables": []} | manifest)
    return folder
