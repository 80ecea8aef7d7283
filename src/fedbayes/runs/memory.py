"""The most memory a job has held so far, in MB as Snakemake and SLURM count them (2^20 bytes)."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import torch


def shown_memory(device: torch.device) -> str:
    """`512 MB`, and on a GPU also the most that tensors took there: `512 MB, 90 MB on cuda:0`."""
    shown = f"{peak_resident():.0f} MB"
    if device.type != "cuda":
        return shown
    return f"{shown}, {torch.cuda.max_memory_allocated(device) / 2**20:.0f} MB on {device}"


def peak_resident() -> float:
    """The most memory this process has held.

    The kernel's own count where there is one: what `getrusage` tells begins with what the process that started this
    one held.
    """
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        found = None
    if found:
        return int(found[1]) / 2**10
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes on Linux, bytes on macOS.
    return held / (2**20 if sys.platform == "darwin" else 2**10)
