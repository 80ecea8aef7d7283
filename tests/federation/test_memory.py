"""Freed memory is kept: a second allocation of the same size touches no new page."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from fedbayes.federation.memory import keep_freed_memory

# In a process of its own, because the allocator's settings are the process's.
_PROGRAM = """
import resource
import torch
from fedbayes.federation.memory import keep_freed_memory
assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(15):
    torch.ones(8 * 2**20)
before = faults()
for _ in range(10):
    torch.ones(8 * 2**20)
print(faults() - before)
"""


@pytest.mark.skipif(not keep_freed_memory(), reason="the C library has no mallopt")
def test_memory_is_used_again() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    # Ten blocks of 32 MiB anew would be ten times this.
    assert int(done.stdout) < 32 * 2**20 // resource.getpagesize()
