"""Methods, one file each, found by name: `load_method("fedavg", {"lr": 0.01, ...}, network)`."""

from __future__ import annotations

import importlib
from typing import Any

from fedbayes.federation.contract import Method
from fedbayes.models.network import Network


def load_method(name: str, fields: dict[str, Any], network: Network) -> Method:
    """The method in `methods/<name>.py`, built for a network."""
    module = importlib.import_module(f"fedbayes.methods.{name}")
    method: Method = module.build(module.Config.model_validate(fields), network)
    return method
