"""Freed memory stays with the process: a step allocates what the one before it freed.

Each step makes new weights and gradients of several MiB. By default glibc hands such blocks back to the kernel and
asks for them anew, and the kernel clears every page of them again: up to half the time of a step, or none of it,
depending on how the heap happens to lie.
"""

from __future__ import annotations

import ctypes

# Parameters of mallopt(3), from malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Blocks up to this many bytes come from the heap: states of a chunk do, whole datasets do not.
LARGEST_KEPT = 64 * 2**20


def keep_freed_memory() -> bool:
    """Ask the allocator to keep freed memory; False where there is no such allocator (macOS, musl)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT) and mallopt(_M_TRIM_THRESHOLD, 2**30))
