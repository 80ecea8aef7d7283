"""Rules by which a dataset is split over clients: their numbers, their names, and whether a dataset can serve them.

Counted in code digests (unlike `config.py`), because who holds which label is decided here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from fedbayes.record import Record


class PFedBayesSplit(Record):
    """Blocks of the pooled dataset, a few labels a client (pFedBayes, section 5.1 and its data generator)."""

    rule: Literal["pfedbayes"]
    clients: PositiveInt = Field(description="N, number of clients.")
    labels_per_client: PositiveInt = Field(description="Labels each client holds.")
    train_per_class: PositiveInt = Field(description="Training samples of each class at each client.")
    test_per_class: PositiveInt = Field(description="Test samples of each class at each client.")
    stratified: bool = Field(
        description="True: exact counts per class. False: each client's data is shuffled as a whole and cut, as the "
        "public code does, so that counts per class hold only on average."
    )

    def client_labels(self, client: int, classes: int) -> list[int]:
        """Labels of a client: (k u + j) mod classes, j < k. With k = 5 of 10 this gives two groups only."""
        k = self.labels_per_client
        return [(k * client + j) % classes for j in range(k)]

    def objection(self, per_class: tuple[int, ...]) -> str | None:
        """Why a dataset with these class counts cannot be split so, or None."""
        classes = len(per_class)
        if self.labels_per_client > classes:
            return f"labels_per_client is {self.labels_per_client}, but the dataset has only {classes} classes"
        holders = [0] * classes
        for client in range(self.clients):
            for label in self.client_labels(client, classes):
                holders[label] += 1
        block = self.train_per_class + self.test_per_class
        for label, (wanted, available) in enumerate(zip(holders, per_class, strict=True)):
            if wanted * block > available:
                return (
                    f"class {label} must give {wanted} clients {block} samples each "
                    f"(train_per_class {self.train_per_class} + test_per_class {self.test_per_class}), "
                    f"{wanted * block} in all, but has only {available}"
                )
        return None


# A second rule turns this into a union discriminated by `rule`.
Split = PFedBayesSplit


def split_name(split: Split) -> str:
    """The folder name of a split, readable and unique: `pfedbayes-clients10-labels_per_client5-...`."""
    parts: list[str] = [split.rule]
    for key, value in split.model_dump().items():
        if key == "rule":
            continue
        if isinstance(value, bool):
            parts.append(key if value else f"not_{key}")
        else:
            parts.append(f"{key}{value}")
    return "-".join(parts)
