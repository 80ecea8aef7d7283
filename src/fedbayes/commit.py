"""The commit of the source tree, for whatever must say where it comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """The commit of the source tree, with `-dirty` where files were changed; `unknown` outside a checkout."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return described.stdout.strip() or "unknown"
