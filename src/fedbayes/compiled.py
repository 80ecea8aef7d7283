"""Where compiled steps are kept between jobs.

A step is compiled for the processor at hand. Nodes of a cluster may differ and share a file system, so each kind of
processor has a folder of its own: a step compiled for a newer one would crash an older one.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path


def keep_compiled(folder: Path) -> None:
    """Tell PyTorch where to keep compiled steps, unless the user has; it looks when it compiles."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str((folder / processor_kind()).resolve()))


def processor_kind(facts: Path = Path("/proc/cpuinfo")) -> str:
    """A short name for what this processor can do."""
    try:
        lines = facts.read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), platform.processor())
    return f"{platform.machine()}-{hashlib.sha256(flags.encode()).hexdigest()[:8]}"
