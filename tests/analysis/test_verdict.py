"""The rule for verdicts, case by case."""

from __future__ import annotations

from math import nan

import pytest

from fedbayes.analysis.published import MEANINGS
from fedbayes.analysis.verdict import objections, tolerance, verdict

ACCURACY, NLL = MEANINGS["acc_GM_pct"], MEANINGS["global_loss_nll"]


@pytest.mark.parametrize(
    ("meaning", "published", "std", "expected"),
    [
        (ACCURACY, 0.8738, 0.0027, 0.01),
        (ACCURACY, 0.4424, 0.0301, 0.0602),
        (ACCURACY, 0.8738, nan, 0.01),
        (NLL, 2.0, nan, 0.1),
        (NLL, 2.0, 0.2, 0.4),
    ],
)
def test_tolerance(meaning: object, published: float, std: float, expected: float) -> None:
    assert tolerance(meaning, published, std) == pytest.approx(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ours", "interval", "expected"),
    [
        (0.8838, (0.88, 0.89), "reproduced"),  # exactly one point away
        (0.8638, (0.86, 0.87), "reproduced"),
        (0.8900, (0.8830, 0.8970), "inconclusive"),
        (0.8900, (0.8850, 0.8950), "better"),
        (0.8600, (0.8550, 0.8650), "inconclusive"),
        (0.8600, (0.8590, 0.8610), "worse"),
    ],
)
def test_accuracy(ours: float, interval: tuple[float, float], expected: str) -> None:
    assert verdict(ACCURACY, 0.8738, 0.0027, ours, interval) == expected


def test_lower_is_better_for_a_loss() -> None:
    assert verdict(NLL, 1.0, nan, 0.8, (0.79, 0.81)) == "better"
    assert verdict(NLL, 1.0, nan, 1.2, (1.19, 1.21)) == "worse"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scale": "reduced"}, "scale reduced"),
        ({"stand_in_for": "MNIST"}, "stand-in for MNIST"),
        ({"marks": "adapted on test data"}, "adapted on test data"),
        ({"seeds": 2}, "2 seeds"),
        ({"seeds": 1}, "1 seed"),
        ({"doubtful": "typo"}, "published number doubtful"),
        ({"published": nan}, "no number printed"),
        ({"ours": nan}, "no value of ours in the paper's window"),
    ],
)
def test_each_objection_alone_prevents_a_verdict(change: dict[str, object], reason: str) -> None:
    good: dict[str, object] = {"scale": "paper", "stand_in_for": "", "seeds": 3, "doubtful": ""}
    good |= {"published": 0.9, "ours": 0.9}
    assert objections(**good) == []  # type: ignore[arg-type]
    assert objections(**good | change) == [reason]  # type: ignore[arg-type]
