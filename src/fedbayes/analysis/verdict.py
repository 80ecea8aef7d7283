"""Whether a number is reproduced: the rule, written down before the runs.

The rule, `RULE` below, is what the report prints; `verdict` is its only implementation. Metrics are in our units, so
one percentage point of accuracy is 0.01.
"""

from __future__ import annotations

import math

from fedbayes.analysis.published import Meaning

RULE = {
    "tolerance": "For accuracy the larger of 1 percentage point and 2 published standard deviations; for any other "
    "metric the larger of 5 % of the published value and 2 published standard deviations.",
    "reproduced": "Our mean over seeds differs from the published number by at most the tolerance.",
    "inconclusive": "It differs by more, but our 95 % Student t interval over seeds reaches into the published number "
    "± tolerance.",
    "better, worse": "Neither of these; which one is decided by the metric's own direction.",
    "no verdict": "Anything but scale paper, on the paper's own dataset (no stand-in), with at least 3 seeds, against "
    "a published number that is not marked doubtful, by a protocol that is sound (not adapted on test data). Times are "
    "those of another machine, and a factor's own base is 1 by definition. The tables say why in each case.",
}

NOT_IN_PAPER = "not in the paper"  # the whole reason, where a method or setting of ours claims no printed number
# Likewise, where what stands in the paper's place is worked out from two of its numbers.
DERIVED = "ratio of two printed times, on other hardware"
MIN_SEEDS = 3
ACCURACY_POINT = 0.01
RELATIVE = 0.05
ROUNDING = 1e-9  # a difference of exactly one tolerance must not fail in the last binary digit


def tolerance(meaning: Meaning, published: float, std: float) -> float:
    """How far a reproduced number may be from the published one."""
    least = ACCURACY_POINT if meaning.metric == "accuracy" else RELATIVE * abs(published)
    return max(least, 0.0 if math.isnan(std) else 2 * std)


def verdict(meaning: Meaning, published: float, std: float, ours: float, interval: tuple[float, float]) -> str:
    """`reproduced`, `inconclusive`, `better` or `worse`, by `RULE`.

    Args:
        meaning: what the metric is; decides the kind of tolerance and the better direction.
        published: the printed number.
        std: its printed standard deviation, NaN if none.
        ours: our mean over seeds.
        interval: our 95 % interval.
    """
    reach = tolerance(meaning, published, std) + ROUNDING
    if abs(ours - published) <= reach:
        return "reproduced"
    low, high = interval
    if low <= published + reach and high >= published - reach:
        return "inconclusive"
    return "better" if (ours > published) == meaning.higher_is_better else "worse"


def objections(
    scale: str,
    stand_in_for: str,
    seeds: int,
    doubtful: str,
    published: float,
    ours: float,
    marks: str = "",
    by_machine: bool = False,
    by_definition: bool = False,
) -> list[str]:
    """Why there is no verdict, in few words each; empty if there is one."""
    reasons = {
        f"scale {scale}": scale != "paper",
        f"stand-in for {stand_in_for}": stand_in_for != "",
        "1 seed" if seeds == 1 else f"{seeds} seeds": seeds < MIN_SEEDS,
        marks: marks != "",
        "other hardware": by_machine,
        "1 by definition": by_definition,
        "published number doubtful": doubtful != "",
        "no number printed": math.isnan(published),
        "no value of ours in the paper's window": math.isnan(ours),
    }
    return [reason for reason, holds in reasons.items() if holds]
