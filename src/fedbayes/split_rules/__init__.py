"""Rules by which a dataset is split over clients: their numbers, their names, and whether a dataset can serve them.

Counted in code digests (unlike `config.py`), because who holds which label is decided here. Each record has a file of
the same `rule` in `data/rules/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from fedbayes.split_rules.by_chance import DirichletSplit, FedUABSplit, IidSplit
from fedbayes.split_rules.by_label import LEAST_OF_A_CLASS, LabelsSplit, PFedBayesSplit, PowerLawSplit
from fedbayes.split_rules.by_user import UsersSplit
from fedbayes.split_rules.facts import ClassFacts, Pool
from fedbayes.split_rules.joined import JoinedSplit
from fedbayes.split_rules.side_by_side import RepeatsSplit

Split: TypeAlias = (
    PFedBayesSplit
    | LabelsSplit
    | DirichletSplit
    | FedUABSplit
    | PowerLawSplit
    | UsersSplit
    | IidSplit
    | JoinedSplit
    | RepeatsSplit
)
AnySplit: TypeAlias = Annotated[Split, Field(discriminator="rule")]

RECORDS: dict[str, type[Split]] = {
    "pfedbayes": PFedBayesSplit,
    "labels": LabelsSplit,
    "dirichlet": DirichletSplit,
    "feduab": FedUABSplit,
    "power-law": PowerLawSplit,
    "users": UsersSplit,
    "iid": IidSplit,
    "joined": JoinedSplit,
    "repeats": RepeatsSplit,
}


LONGEST_NAME = 200


# Rules that deal a sample again when its class is used up, as they say themselves.
SHARED_SAMPLES = frozenset({"feduab"})


def split_of(found: Mapping[str, Any]) -> Split:
    """The record of a split's specification."""
    return RECORDS[found["rule"]].model_validate(found)


def split_name(split: Split) -> str:
    """The folder name of a split, readable and unique: `pfedbayes-clients10-labels_per_client5-...`.

    What would be too long for a file system ends in a digest.
    """
    name = _name(split.model_dump())
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 13]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _name(fields: Mapping[str, Any]) -> str:
    parts: list[str] = [fields["rule"]]
    for key, value in fields.items():
        if key == "rule" or value is None:
            continue
        if isinstance(value, bool):
            parts.append(key if value else f"not_{key}")
        elif isinstance(value, Mapping):
            parts.append(f"{key}_{_name(value)}")
        elif isinstance(value, tuple):
            parts.append(key + "_".join(map(str, value)))
        else:
            parts.append(f"{key}{value}")
    return "-".join(parts)


__all__ = [
    "LEAST_OF_A_CLASS",
    "RECORDS",
    "SHARED_SAMPLES",
    "AnySplit",
    "ClassFacts",
    "DirichletSplit",
    "FedUABSplit",
    "IidSplit",
    "JoinedSplit",
    "LabelsSplit",
    "PFedBayesSplit",
    "Pool",
    "PowerLawSplit",
    "RepeatsSplit",
    "Split",
    "UsersSplit",
    "split_name",
    "split_of",
]
