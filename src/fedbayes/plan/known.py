"""What planning reads beside the papers' files, each file once: what a user's words are held against."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedbayes.config import DatasetFacts, MethodPresets
from fedbayes.reading import choice, complain, fill, parse, read_yaml


@dataclass(frozen=True)
class Known:
    """Datasets, methods, networks and printed numbers that there are.

    Attributes:
        root: the folder that holds `config/`.
        schema: the fields of methods and networks, as `make schema` wrote them down.
        datasets: facts of all datasets by name.
        printed: columns (`dataset / setting`) of every printed table, by paper and table.
        presets: files of methods that have been asked for, by method.
    """

    root: Path
    schema: dict[str, Any]
    datasets: dict[str, DatasetFacts]
    printed: dict[str, dict[str, set[str]]]
    presets: dict[str, MethodPresets] = field(default_factory=dict)

    def presets_of(self, method: str) -> dict[str, dict[str, Any]]:
        """The presets of a method that is in the schema, by name; all are checked when the first is asked for."""
        if method not in self.presets:
            file = f"config/methods/{method}.yaml"
            found = parse(MethodPresets, read_yaml(self.root / file, file), file)
            for name, values in found.presets.items():
                fill(self.schema["methods"][method], values, file, f"presets.{name}")
            self.presets[method] = found
        return self.presets[method].presets


def read_known(root: Path) -> Known:
    """What is known below `root`; datasets that others name must exist."""
    schema = json.loads((root / "config/schema.json").read_text(encoding="utf-8"))
    found = read_yaml(root / "config/datasets.yaml", "config/datasets.yaml")
    datasets = {k: parse(DatasetFacts, v, "config/datasets.yaml", k) for k, v in found.items()}
    for name, facts in datasets.items():
        for key in ("stand_in_for", "embedded"):
            other = getattr(facts, key)
            if other is not None and other not in datasets:
                raise complain("config/datasets.yaml", f"{name}.{key}", choice(other, datasets))
    return Known(root, schema, datasets, read_printed(root))


def read_printed(root: Path) -> dict[str, dict[str, set[str]]]:
    """Columns (`dataset / setting`) of every printed table, by paper and table."""
    printed: dict[str, dict[str, set[str]]] = {}
    with (root / "config/published.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            columns = printed.setdefault(row["paper"], {}).setdefault(row["table"], set())
            columns.add(f"{row['dataset']} / {row['setting']}")
    return printed


def read_committed_splits(root: Path) -> dict[str, dict[str, str]]:
    """Rows of `config/splits.csv` by path: the splits `data.dvc` pins."""
    file = root / "config/splits.csv"
    if not file.exists():
        return {}
    with file.open(encoding="utf-8", newline="") as lines:
        return {row["path"]: row for row in csv.DictReader(lines)}
