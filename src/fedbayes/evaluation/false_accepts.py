r"""Relative false accepts: what Self-FL prints of its wake words (Tables 4 to 6), smaller being better.

A detector accepts a sample whose score, the probability of the keyword, is at least a threshold $t$. At $t$ it misses
$M(t)$ keywords, those below $t$, and accepts $F(t)$ samples that are none. The baseline misses $m = M_b(0.5)$ at its
operating point. Each model is then judged at the largest threshold at which it misses no more:

$$ t_m = \max \{t : M(t) \le m\}, \qquad \text{relative false accepts} = F(t_m) / F_b(t_m). $$

That threshold is the score of a keyword, the $(m + 1)$-th from below. Where keywords tie there, no threshold misses
exactly $m$, and fewer are missed. The baseline too is judged at its own $t_m$, the highest threshold that misses the
same keywords as 0.5 does: otherwise a model equal to the baseline could come out better. So only the order of the
scores counts, not their scale. The paper does not say how its operating points are matched; this is our reading.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def relative_false_accepts(
    scores: Tensor, baseline: Tensor, labels: Tensor, groups: Tensor, count: int, threshold: float = 0.5
) -> Tensor:
    """False accepts of a model over those of a baseline at the same misses [count], each group of samples for itself.

    Where the baseline accepts nothing falsely, the value is infinite if the model does, and NaN if it does not either:
    there is no ratio then, and any other number would be taken for one. NaN, too, for a group without a keyword or
    with a score that is NaN.

    Args:
        scores: the model's probability of the keyword [n].
        baseline: the baseline's [n].
        labels: 1 for the keyword, 0 otherwise [n].
        groups: a number for each sample, such as that of its device and state [n].
        count: number of groups.
        threshold: the baseline's operating point.
    """
    values = []
    for group in range(count):
        own = groups == group
        values.append(_relative(scores[own], baseline[own], labels[own] == 1, threshold))
    return torch.tensor(values, dtype=torch.float64, device=scores.device)


def _relative(scores: Tensor, baseline: Tensor, is_keyword: Tensor, threshold: float) -> float:
    if not is_keyword.any() or scores.isnan().any() or baseline.isnan().any():
        return math.nan
    missed = int((baseline[is_keyword] < threshold).sum())
    ours, theirs = (false_accepts(found, is_keyword, missed) for found in (scores, baseline))
    if theirs == 0:
        return math.inf if ours else math.nan
    return ours / theirs


def false_accepts(scores: Tensor, is_keyword: Tensor, missed: int) -> int:
    """Other samples accepted at the largest threshold that misses at most `missed` keywords.

    Where all keywords may be missed, every threshold will do, and nothing is accepted.
    """
    keywords, others = scores[is_keyword], scores[~is_keyword]
    if missed >= len(keywords):
        return 0
    return int((others >= keywords.sort().values[missed]).sum())
