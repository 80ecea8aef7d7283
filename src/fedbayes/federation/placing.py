"""Constants on whatever device asks for them, sent there once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def on_device(*constants: Tensor) -> Callable[[torch.device], tuple[Tensor, ...]]:
    """The same constants on a device: a step that sends them itself makes the GPU wait for the host every time."""
    # A plain dict, not functools.cache, through which a compiled step would not look.
    held: dict[torch.device, tuple[Tensor, ...]] = {}

    def on(device: torch.device) -> tuple[Tensor, ...]:
        if device not in held:
            held[device] = tuple(constant.to(device) for constant in constants)
        return held[device]

    return on
