r"""How well a model's doubt tells wrong from right predictions, and unknown from known classes.

A score of doubt is good if the samples to be found have more of it than the others. Its AUROC is the chance of that,

$$ P(s_+ > s_-) + \tfrac12 P(s_+ = s_-), $$

for a sample to be found and another one, drawn at random: Mann and Whitney's statistic of the ranks. 0.5 is chance.
Scores are $1 - \max_k p_k$ (`confidence`: Hendrycks and Gimpel 2017) and the parts of the uncertainty (FedUAB, Figures
8 and 9), where a model predicts by several draws.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedbayes.bayes.uncertainty import PARTS
from fedbayes.evaluation.evaluate import Predictions


def auroc(sought: Tensor, others: Tensor) -> float:
    """The chance that one of `sought` [n] is above one of `others` [m], ties counted half; NaN if either is empty."""
    if not len(sought) or not len(others):
        return math.nan
    ordered = others.double().sort().values
    below, up_to = (torch.searchsorted(ordered, sought.double(), right=right).sum() for right in (False, True))
    return float(below + up_to) / (2 * len(sought) * len(others))


def doubts(predictions: Predictions) -> dict[str, Tensor]:
    """Scores `[sample]` that grow with a model's doubt, by name."""
    parts = zip(PARTS, predictions.uncertainty.unbind(1), strict=False)
    return {"confidence": 1 - predictions.probs.max(1).values, **dict(parts)}


def wrong_from_right(predictions: Predictions) -> dict[str, float]:
    """AUROC of every score for finding wrong predictions: `auroc-wrong-<score>`."""
    wrong = predictions.probs.argmax(1) != predictions.labels
    return {f"auroc-wrong-{name}": auroc(score[wrong], score[~wrong]) for name, score in doubts(predictions).items()}


def outsiders_from_known(outside: Predictions, known: Predictions) -> dict[str, float]:
    """AUROC of every score for finding outsiders among known samples, `auroc-ood-<score>`, and outsiders' means."""
    strange, familiar = doubts(outside), doubts(known)
    found = {f"auroc-ood-{name}": auroc(strange[name], familiar[name]) for name in strange}
    return found | {name: float(strange[name].double().mean()) for name in PARTS if name in strange}


def by_resemblance(outside: Predictions, resembles: Tensor) -> dict[str, Predictions]:
    """Outsiders by condition: all, those whose class resembles a known one, the others; empty ones are left out."""
    chosen = {"outsiders": torch.ones_like(resembles), "outsiders-alike": resembles, "outsiders-unlike": ~resembles}
    return {name: Predictions(*(part[own] for part in outside)) for name, own in chosen.items() if own.any()}
