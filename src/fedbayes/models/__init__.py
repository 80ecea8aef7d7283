"""Networks, one file each, found by name: `load_network("mlp", {"hidden": [100]}, shape, classes)`."""

from __future__ import annotations

import importlib
from typing import Any

from fedbayes.models.network import Network


def load_network(name: str, fields: dict[str, Any], shape: tuple[int, ...], classes: int) -> Network:
    """The network in `models/<name>.py`, with sizes inferred from the data."""
    module = importlib.import_module(f"fedbayes.models.{name}")
    network: Network = module.build(module.Config.model_validate(fields), shape, classes)
    return network
