"""A copy of `config/` that a test may spoil, and what the plan says of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from artefacts import ROOT
from fedbayes.plan import ConfigError, load_plan

Change = Callable[[Any], None]


def copy_config(folder: Path) -> Path:
    """Put the copy below `folder`, which is then the root of a project as far as planning goes."""
    shutil.copytree(ROOT / "config", folder / "config")
    return folder


def edit(clone: Path, file: str, change: Change) -> None:
    """Change what a file of `config/` says."""
    path = clone / "config" / file
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    change(content)
    path.write_text(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False), encoding="utf-8")


def at(*keys: str, value: Any) -> Change:
    """The change that writes a value at a path of keys, those on the way included."""

    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content.setdefault(key, {})
        content[keys[-1]] = value

    return change


def complaint(clone: Path, **config: Any) -> str:
    """The one sentence with which the plan refuses."""
    with pytest.raises(ConfigError) as caught:
        load_plan(config, clone)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence
