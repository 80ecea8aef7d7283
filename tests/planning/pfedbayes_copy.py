"""pFedBayes' file in a copy of `config/`: what most tests of planning change, and what the plan says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import config_copy
from config_copy import at

PAPER = "papers/pfedbayes.yaml"


def complaint(clone: Path, **config: Any) -> str:
    return config_copy.complaint(clone, **{"scale": "paper", "papers": ["pfedbayes"]} | config)


def row(**keys: Any) -> Any:
    """Another method in FedAvg's row of Table 1."""
    return at("experiments", "table1", "methods", "FedAvg", value=keys)
