r"""Relative false accepts: what Self-FL prints of its wake words (Tables 4 to 6), smaller being better.

A detector accepts a sample whose score, the log-odds of the keyword, is at least a threshold $t$. At $t$ it misses
$M(t)$ keywords, those below $t$, and accepts $F(t)$ samples that are none. The baseline operates at the largest
threshold $t_b$ at which it misses at most a share of the $K$ keywords, and each model is judged at the largest
threshold at which it misses no more than the baseline does:

$$ t_b = \max \{t : M_b(t) \le 0.05 K\}, \quad t_m = \max \{t : M(t) \le M_b(t_b)\}, \quad
\text{relative false accepts} = F(t_m) / F_b(t_b). $$

Such a threshold is the score of a keyword, the $(m + 1)$-th from below for $m$ misses. Where keywords tie there, no
threshold misses exactly $m$, and fewer are missed. So only the order of the scores counts, not their scale. The paper
says neither where its baseline operates nor how operating points are matched; this is our reading. A threshold of 0.5
would not do: one sample in ten is a keyword here, so that a baseline misses most keywords of a hard group there,
accepts nothing falsely, and leaves nothing to divide by.

Two runs hold the same test samples at different clients, each in its own order: only counts are compared.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

METRIC = "relative_fa"
KEYWORD = 1  # its label
MISSES = 0.05  # share of the keywords that the baseline misses


class Scored(NamedTuple):
    """Test samples of one group as a detector sees them: its scores [n], and whether each is the keyword [n]."""

    scores: NDArray[np.float64]
    is_keyword: NDArray[np.bool_]


def relative_values(predictions: pd.DataFrame, baseline: pd.DataFrame) -> pd.DataFrame:
    """Relative false accepts of each model in each group of samples: columns model, condition and value.

    Args:
        predictions: `predictions.parquet` of a run.
        baseline: that of the baseline, whose global model is taken.
    """
    theirs = {str(group): scored(rows) for group, rows in baseline[baseline["model"] == "gm"].groupby("group")}
    found = [
        (model, group, relative_false_accepts(scored(rows), theirs[str(group)]))
        for (model, group), rows in predictions.groupby(["model", "group"])
    ]
    return pd.DataFrame(found, columns=["model", "condition", "value"])


def scored(predictions: pd.DataFrame) -> Scored:
    """Scores from rows of `predictions.parquet` with two classes: the log-odds of the keyword.

    They have the order of its probability and keep it where that rounds to 0 or 1, as it does for most samples of a
    baseline that was trained to the end.
    """
    with np.errstate(divide="ignore"):  # of a probability that is 0 even so
        highest, other = (np.log(predictions[name].to_numpy(np.float64)) for name in ("confidence", "runner-up"))
    sign = np.where(predictions["predicted"].to_numpy() == KEYWORD, 1, -1)
    return Scored(sign * (highest - other), predictions["label"].to_numpy() == KEYWORD)


def relative_false_accepts(model: Scored, baseline: Scored, misses: float = MISSES) -> float:
    """False accepts of a model over those of a baseline at the same misses.

    Where the baseline accepts nothing falsely, the value is infinite if the model does, and NaN if it does not either:
    there is no ratio then, and any other number would be taken for one. NaN, too, without a keyword or with a score
    that is NaN.

    Args:
        model: the same samples as the baseline's, in any order.
        baseline: what it is compared with.
        misses: the share of keywords that the baseline misses at most.
    """
    if not baseline.is_keyword.any() or np.isnan(model.scores).any() or np.isnan(baseline.scores).any():
        return math.nan
    missed, theirs = operate(baseline, int(misses * baseline.is_keyword.sum()))
    _, ours = operate(model, missed)
    if theirs == 0:
        return math.inf if ours else math.nan
    return ours / theirs


def operate(found: Scored, allowed: int) -> tuple[int, int]:
    """Keywords missed and other samples accepted at the largest threshold that misses at most `allowed` keywords.

    Where all keywords may be missed, every threshold will do, and nothing is accepted.
    """
    keywords, others = np.sort(found.scores[found.is_keyword]), found.scores[~found.is_keyword]
    if allowed >= len(keywords):
        return len(keywords), 0
    return int((keywords < keywords[allowed]).sum()), int((others >= keywords[allowed]).sum())
