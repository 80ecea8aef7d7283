"""Figures of Self-FL."""

from __future__ import annotations

from collections.abc import Callable

from fedbayes.analysis.drawing import Drawn
from fedbayes.analysis.figures import selffl_mnist, selffl_synthetic, selffl_training
from fedbayes.analysis.figures.sources import Sources

FIGURES: dict[str, Callable[[Sources], Drawn]] = (
    selffl_synthetic.FIGURES | selffl_training.FIGURES | selffl_mnist.FIGURES
)
