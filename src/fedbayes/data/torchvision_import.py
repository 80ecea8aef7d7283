"""`import torchvision`, also where its CUDA build stands beside a CPU-only torch.

There the plain import fails, because two detection operators are not compiled in ("operator torchvision::nms does not
exist"). Loading a dataset needs neither: declaring their schemas is enough.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import torch

MISSING_OPERATORS = ("nms", "qnms")

# torch forgets a declaration as soon as its library object is collected.
_declared: list[torch.library.Library] = []


def torchvision_datasets() -> ModuleType:
    """The module `torchvision.datasets`."""
    try:
        return importlib.import_module("torchvision.datasets")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        _declare_missing_operators()
        return importlib.import_module("torchvision.datasets")


def _declare_missing_operators() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for operator in MISSING_OPERATORS:
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    _declared.append(library)
