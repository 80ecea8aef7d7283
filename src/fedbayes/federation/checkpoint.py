"""Checkpoints of a whole federation: written atomically, checked when read, the previous one kept.

A checkpoint is a folder `round-<n>` with `state.safetensors` (tensors) and `progress.json` (everything else, and the
digest of the tensors' file). It is made under a temporary name and renamed, so a kill at any moment leaves the last
complete one; a damaged or foreign one is said in the log and the one before it is used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fedbayes.io import read_json, read_state, write_json, write_state

KEPT = 2
STALE_SECONDS = 3600


def save(folder: Path, round_: int, identity: Mapping[str, str], tensors: Mapping[str, Tensor], progress: Any) -> None:
    """Write a checkpoint of round `round_` and drop all but the newest two.

    Args:
        folder: where this run's checkpoints are.
        round_: rounds completed.
        identity: what must be equal for a later start to go on from here.
        tensors: the state.
        progress: what else is needed, as JSON values.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder))
    write_state(part / "state.safetensors", tensors)
    content = {"identity": dict(identity), "state": _digest(part / "state.safetensors"), "progress": progress}
    write_json(part / "progress.json", content | {"self": _seal(content)})
    _put(part, folder / f"round-{round_:06d}", identity)
    _sync(folder)
    for old in _newest_first(folder)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    # Left by a kill. A young one may belong to a second writer: a job that was thought dead and started again.
    for part in folder.glob(".part-*"):
        if time.time() - part.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(part, ignore_errors=True)


def _put(part: Path, target: Path, identity: Mapping[str, str]) -> None:
    """Give a finished checkpoint its name; one already there (a second writer's) stands if it is whole."""
    if target.exists():
        try:
            _read(target, identity)
        except (OSError, ValueError, KeyError):
            shutil.rmtree(target)
        else:
            shutil.rmtree(part)
            return
    part.rename(target)


def latest(folder: Path, identity: Mapping[str, str], log: logging.Logger) -> tuple[dict[str, Tensor], Any] | None:
    """The newest checkpoint that is whole and belongs to this run, or None."""
    for candidate in _newest_first(folder):
        try:
            return _read(candidate, identity)
        except (OSError, ValueError, KeyError) as error:
            log.warning("checkpoint %s is not used: %s", candidate.name, error)
    return None


def _read(folder: Path, identity: Mapping[str, str]) -> tuple[dict[str, Tensor], Any]:
    content = read_json(folder / "progress.json")
    seal = content.pop("self")
    if seal != _seal(content):
        raise ValueError("progress.json is damaged")
    for key, value in identity.items():
        if content["identity"].get(key) != value:
            raise ValueError(f"it belongs to another {key} ({content['identity'].get(key)}, this is {value})")
    if content["state"] != _digest(folder / "state.safetensors"):
        raise ValueError("state.safetensors is truncated or damaged")
    return read_state(folder / "state.safetensors"), content["progress"]


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("round-*"), reverse=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sync(folder: Path) -> None:
    """Make the rename itself last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
