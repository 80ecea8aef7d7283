"""`data/` made again from `config/splits.csv`, so that `dvc status` is clean without a DVC remote (`make splits`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from fedbayes.config import DatasetFacts
from fedbayes.data.fetch import FACTS, fetch, is_fetched
from fedbayes.data.sources import data_root
from fedbayes.data.splits import LIST, make_split
from fedbayes.plan import read_committed_splits
from fedbayes.reading import ConfigError, choice, complain, parse, read_yaml
from fedbayes.split_rules import split_of


def regenerate(root: Path) -> list[str]:
    """Make every listed split below `root/data`, hand the folder to DVC and return the paths.

    DVC must be told, though nothing changes: a folder that its cache does not know counts as changed. Where a dataset
    is not at hand the splits of all others are made, and DVC is not told: it would pin the folder as it is.
    """
    rows = read_committed_splits(root)
    sweep(root, rows)
    absent: dict[str, str] = {}
    for dataset in sorted({row["dataset"] for row in rows.values()}):
        try:
            fetched(root, dataset)
        except ConfigError as reason:
            absent[dataset] = str(reason)
    made = {path: row for path, row in rows.items() if row["dataset"] not in absent}
    for path, row in made.items():
        make_split(
            fetched(root, row["dataset"]), split_of(json.loads(row["split"])), int(row["seed"]), root / path, row
        )
    if absent:
        first = next(iter(absent))
        raise ConfigError(
            f"{len(made)} of {len(rows)} splits made; without data: {', '.join(absent)}; {first}: {absent[first]}"
        )
    dvc_add(root)
    return list(rows)


def fetched(root: Path, name: str) -> Path:
    """The folder `resources/<dataset>`, fetched unless the arrays `config/datasets.yaml` describes are there."""
    known = read_yaml(root / FACTS, FACTS)
    if name not in known:
        raise complain(LIST, "dataset", "unknown dataset: " + choice(name, known))
    facts = parse(DatasetFacts, known[name], FACTS, name)
    folder = root / "resources" / name
    if not is_fetched(folder, facts):
        fetch(name, facts, folder, data_root())
    return folder


def sweep(root: Path, keep: Collection[str]) -> None:
    """Remove split files below `root/data` that are not to be kept; DVC pins whatever is in the folder.

    What a killed writer left (`.part`) goes too.
    """
    for file in sorted((root / "data").rglob("*")):
        path = file.relative_to(root).as_posix()
        if file.is_dir() or path in keep:
            continue
        if file.suffix not in (".npz", ".part"):
            raise ConfigError(f"{path}: only splits belong in data/, which DVC pins as a whole; move the file away")
        file.unlink()


def dvc_add(root: Path) -> None:
    """Pin `data/` in `data.dvc` and store its files in DVC's cache."""
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "add", "--quiet", "data"],
        cwd=root,
        env=os.environ | {"DVC_NO_ANALYTICS": "true"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ConfigError(f"data.dvc: 'dvc add data' failed: {' '.join(done.stderr.split())}")
