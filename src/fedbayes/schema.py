"""`config/schema.json`, generated from the typed models: `python -m fedbayes.schema` rewrites it.

Planning validates methods and networks against this file, because their modules import torch and planning must not.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import fedbayes.methods
import fedbayes.models
from fedbayes.config import Config, DatasetFacts, MethodPresets, Paper
from fedbayes.io import write_text

FILE = Path("config/schema.json")


def schema() -> dict[str, Any]:
    """One JSON schema for each kind of file, each method and each network."""
    return {
        "config": Config.model_json_schema(),
        "paper": Paper.model_json_schema(),
        "dataset": DatasetFacts.model_json_schema(),
        "presets": MethodPresets.model_json_schema(),
        "methods": _configs(fedbayes.methods),
        "networks": _configs(fedbayes.models),
    }


def text() -> str:
    """The file's content."""
    return json.dumps(schema(), indent=1, sort_keys=True) + "\n"


def _configs(package: Any) -> dict[str, Any]:
    """Schemas of the `Config` of every module of a package that has one."""
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        config = getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "Config", None)
        if config is not None:
            found[module.name] = config.model_json_schema()
    return found


if __name__ == "__main__":
    write_text(FILE, text())
