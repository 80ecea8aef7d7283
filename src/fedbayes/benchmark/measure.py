"""Clocks, memory and the machine's best: how a job becomes numbers.

Seconds are CPU seconds of the whole process: with one thread they are what a quiet machine's clock would show, and a
busy machine disturbs them least. Ratios are taken within a repeat, engine and plain loop one right after the other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fedbayes.benchmark.jobs import build
from fedbayes.benchmark.settings import Setting
from fedbayes.runs.memory import peak_resident

# A training job's own imports, one eager step of two clients, then seconds since the interpreter began.
_STARTUP = """
import json, sys, time
import fedbayes.runs.train
from fedbayes.benchmark.jobs import build
from fedbayes.benchmark.settings import Setting
build(Setting("", "fedavg", "mlp", 2, 10, 1, samples=10, compiled=False)).ours()
heavy = [name for name in ("mlflow", "pandas", "torchvision") if name in sys.modules]
print(json.dumps({"cpu_seconds": time.process_time(), "heavy_imports": heavy}))
"""


def measure(setting: Setting, repeats: int) -> dict[str, Any]:
    """All repeats of a job and what they amount to."""
    _forget_peak()
    job = build(setting)
    # Compiles, fills caches, and shows the memory the engine needs before the plain loop has used any.
    first = seconds(job.ours)
    peak = peak_resident()
    job.plain()
    ours, plain = [], []
    for _ in range(repeats):
        ours.append(seconds(job.ours))
        plain.append(seconds(job.plain))
    ratios = [theirs / own for own, theirs in zip(ours, plain, strict=True)]
    return {
        "title": setting.title,
        "lifting": str(job.lifting),
        "client_steps": setting.client_steps,
        "flops": setting.flops,
        "rounds": setting.rounds,
        "warm_up_seconds": first,
        "ours_seconds": ours,
        "plain_seconds": plain,
        "ours_per_second": setting.client_steps / statistics.median(ours),
        "plain_per_second": setting.client_steps / statistics.median(plain),
        "seconds_per_round": statistics.median(ours) / setting.rounds,
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios), "all": ratios},
        "peak_mib": peak,
    }


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    before = time.process_time()
    work()
    return time.process_time() - before


def sgemm_peak(size: int = 1024, repeats: int = 10) -> float:
    """Floating-point operations a second of the best of some large float32 matrix products."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = min(seconds(lambda: torch.mm(a, b)) for _ in range(repeats))
    return 2 * size**3 / best


def _forget_peak() -> None:
    """Start the peak anew where the kernel allows it; elsewhere a job shows the peak of all jobs so far."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def start_up() -> dict[str, Any]:
    """From the start of a fresh interpreter to the end of the first training step, and heavy modules it imported."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", _STARTUP], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"seconds": time.monotonic() - began}
