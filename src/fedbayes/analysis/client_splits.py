"""A client split in numbers and words: what each client holds of each label, and what to say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbayes.analysis.display import count, dataset
from fedbayes.data.splits import check_made_for, read_split
from fedbayes.io import read_json
from fedbayes.split_rules import split_of

Counts = NDArray[np.int64]

PARTS = {"train": "training", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class ClientSplit:
    """What each client of a split holds.

    Attributes:
        counts: training samples by client and label.
        sizes: samples of each client by part: training, validation (if there is any) and test.
        newcomers: clients held out of training.
        manifest: the split file's own description.
    """

    counts: Counts
    sizes: Mapping[str, Counts]
    newcomers: tuple[int, ...]
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class Words:
    """What is said beside it: titles of the settings that have the split, the data that really ran, the scale."""

    titles: Sequence[str]
    dataset_title: str
    stand_in_for: str
    scale: str


def read_client_split(split_file: Path, dataset_folder: Path) -> ClientSplit:
    """Counts, sizes and newcomers of a split file."""
    clients, manifest = read_split(split_file)
    data = read_json(dataset_folder / "manifest.json")
    check_made_for(split_file, manifest, data)
    labels = np.load(dataset_folder / "labels.npy", allow_pickle=False)
    sizes = {PARTS[part]: np.array([len(own) for own in held]) for part, held in clients._asdict().items()}
    return ClientSplit(
        label_counts(clients.train, labels, len(data["per_class"])),
        {part: size for part, size in sizes.items() if size.any()},
        split_of(manifest["split"]).held_out(),
        manifest,
    )


def label_counts(indices: Sequence[Counts], labels: Counts, classes: int) -> Counts:
    """Samples of each label (client, label) among the positions that each client holds."""
    return np.stack([np.bincount(labels[own], minlength=classes) for own in indices])


def facts(split: ClientSplit, words: Words) -> list[str]:
    """Data, scale, rule, seed and clients; sizes; other settings that have the split, where there are any."""
    sizes = split.sizes["training"]
    median = f"{np.median(sizes):,.1f}".removesuffix(".0")
    held_out = f", {len(split.newcomers)} of them held out of training" if split.newcomers else ""
    found = [
        f"{dataset(words.dataset_title, words.stand_in_for)}, scale {words.scale}; rule {split.manifest['rule']}, "
        f"seed {split.manifest['seed']}; {count(len(sizes), 'client')}{held_out}",
        f"Training samples of a client: least {sizes.min():,}, median {median}, most {sizes.max():,}",
    ]
    return found + [f"Also the split of: {'; '.join(words.titles[1:])}"] * bool(words.titles[1:])


def caption(split: ClientSplit, words: Words) -> str:
    """How to read the picture, what it shows, the numbers of its rule, and which settings share the split."""
    parts = " and ".join(filter(None, [", ".join(list(split.sizes)[:-1]), list(split.sizes)[-1]]))
    return (
        f"Client split of {words.titles[0]}. Training samples of each client and label: darker is more, white is none. "
        f"Beside it the samples each client has for {parts}. "
        f"{'. '.join(facts(split, words))}. Rule: {_rule(split.manifest['split'])}."
    )


def _rule(fields: Mapping[str, Any]) -> str:
    """`labels (clients 10, labels_per_client 5)`; what stands in the picture itself, the newcomers, is left out."""
    numbers = [
        f"{key} {_rule(value) if isinstance(value, Mapping) else value}"
        for key, value in fields.items()
        if key not in ("rule", "newcomers") and value is not None
    ]
    return f"{fields['rule']} ({', '.join(numbers)})"
