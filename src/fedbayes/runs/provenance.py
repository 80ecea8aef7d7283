"""Where a run's numbers come from: split, versions, machine."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from fedbayes.data.shift_files import read_noise
from fedbayes.io import file_sha256, read_json

PACKAGES = ("torch", "numpy", "safetensors", "fedbayes")


def split_record(file: Path) -> dict[str, str]:
    """Path and digests of the split a run used; the md5 is the one DVC knows it by."""
    content = file.read_bytes()
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return {"path": file.as_posix(), "sha256": hashlib.sha256(content).hexdigest(), "md5": md5}


def shift_record(file: Path) -> dict[str, Any]:
    """Path and digest of the shifted samples a run used, and the noise model of each client."""
    return {"path": file.as_posix(), "sha256": file_sha256(file), "noise": read_noise(file)["noise"]}


def start_record(file: Path) -> dict[str, str]:
    """Path and digest of the state a warm-started run began with."""
    return {"path": file.as_posix(), "sha256": file_sha256(file)}


def dataset_record(folder: Path) -> dict[str, Any]:
    """Name, digest and size of the dataset a run used."""
    manifest = read_json(folder / "manifest.json")
    return {key: manifest[key] for key in ("name", "sha256", "samples")}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that make numbers."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def hardware(device: torch.device) -> dict[str, Any]:
    """Processor, device and threads a job ran on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"processor": _processor(), "cores": os.cpu_count(), "device": name, "threads": torch.get_num_threads()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
