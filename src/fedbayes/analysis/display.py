"""How numbers and names are shown: in the paper's unit, with as many digits as the paper prints."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from fedbayes.analysis.published import meaning_of
from fedbayes.config import OWN_TABLE
from fedbayes.io import COST

NOT_RUN = "not run"
NOTHING = "–"
DIVERGED = "‡"

# Digits after the point, by unit, where the paper prints no number to go by; three for all other units.
UNPRINTED_DIGITS = {"%": 2}

# What a metric is tested on, where not on what the setting says.
CONDITIONS = {"new": " at new clients", "local": " on the clients' test sets"}

# Our metrics in words.
METRIC_NAMES = {
    "accuracy": "accuracy",
    "nll": "negative log-likelihood",
    "ece10": "ECE, 10 bins",
    "ece15": "ECE, 15 bins",
    "mce10": "MCE, 10 bins",
    "mce15": "MCE, 15 bins",
    "brier": "Brier score",
    "error": "distance from the truth",
    "distance": "distance from the best estimate",
    "relative_fa": "relative false accepts",
    "weights": "numbers of a client's model",
    "bytes": "bytes a client sends in a round",
    "seconds_per_update": "training time of an update",
    "time_beside_pfedbayes": "training time, pFedBayes being 1",
    "time_factor": "training time, FedAvg being 1",
    "space_factor": "size of a client's model, FedAvg being 1",
    "communication_factor": "bytes a client sends, FedAvg being 1",
}


def title(name: str) -> str:
    """A table or figure as people write it: `Table 1` for `Table1`, `none: ablations` for a table of our own."""
    if is_own(name):
        return f"none: {name.removeprefix(OWN_TABLE)}"
    return re.sub(r"^(Table|Figure)\s*", r"\1 ", name)


def measure(metric: str) -> str:
    """A printed metric in words: `accuracy (%)`, `mean over clients of ECE, 15 bins`."""
    meaning = meaning_of(metric)
    scope = {"pooled": "", "mean": "mean over clients of ", "worst": "worst client's "}[meaning.scope]
    name = METRIC_NAMES.get(meaning.metric, meaning.metric.replace("_", " "))
    return f"{scope}{name}{CONDITIONS.get(meaning.condition, '')}" + (f" ({meaning.unit})" if meaning.unit else "")


def model(row: Mapping[str, Any]) -> str:
    """`PM` or `GM`; empty where nothing says which, or where a number is about costs."""
    return "" if row["model"] == COST else str(row["model"]).upper()


def decimals(printed: str) -> int:
    """Digits after the point of the printed value; two where no number is printed."""
    found = re.match(r"-?\d+(?:\.(\d+))?(?=$| )", printed)
    return len(found[1] or "") if found else 2


def digits(row: Mapping[str, Any]) -> int:
    """Digits after the point that a row's numbers are shown with."""
    return decimals(row["printed"]) if row["printed"] else UNPRINTED_DIGITS.get(meaning_of(row["metric"]).unit, 3)


def in_unit(value: float, row: Mapping[str, Any]) -> float:
    """One of our values in the unit of a row's printed number."""
    return value / float(meaning_of(row["metric"]).factor)


def number(value: float, row: Mapping[str, Any], sign: str = "") -> str:
    """One of our values beside the printed number of `row`: its unit, its digits; empty for NaN.

    Args:
        value: a value in our units.
        row: a row of the reproduction; its `metric` and `printed` decide unit and digits.
        sign: `+` to show the sign always.
    """
    if math.isnan(value):
        return ""
    # z: a negative number that is shown as zero is shown without its sign.
    return f"{in_unit(value, row):{sign}z.{digits(row)}f}".replace("-", "−")


def with_spread(value: float, std: float, row: Mapping[str, Any]) -> str:
    """`87.21 ± 0.30`, or the value alone where there is no spread (one seed)."""
    spread = number(std, row)
    return number(value, row) + (f" ± {spread}" if spread else "")


def interval(row: Mapping[str, Any]) -> str:
    """`86.90 to 87.52`; empty for one seed."""
    low, high = number(row["ci_low"], row), number(row["ci_high"], row)
    return f"{low} to {high}" if low and high else ""


def ours(row: Mapping[str, Any]) -> str:
    """Our mean and spread, marked where a seed diverged; `no value` where there is none."""
    return (with_spread(row["ours"], row["std"], row) or "no value") + (f" {DIVERGED}" if row["diverged"] else "")


def beside(row: Mapping[str, Any]) -> str:
    """`last 87.65` beside a number of the best round, `best 0.61` beside one of the last; empty where digits agree."""
    other = "best" if meaning_of(row["metric"]).selection == "last" else "last"
    text = number(row[f"ours_{other}"], row)
    return f"{other} {text}" if text and text != number(row["ours"], row) else ""


def ran_on(row: Mapping[str, Any]) -> str:
    """The dataset that really ran, and what it stands in for."""
    return dataset(row["ran_on"], row["stand_in_for"])


def dataset(title: str, stand_in_for: str) -> str:
    """`MNIST-5k (stands in for MNIST)`."""
    return title + (f" (stands in for {stand_in_for})" if stand_in_for else "")


def judged(row: Mapping[str, Any]) -> str:
    """The verdict, or why there is none."""
    return str(row["verdict"] or f"none: {row['why_no_verdict']}")


def diverged(row: Mapping[str, Any]) -> str:
    """`diverged` where a seed did, for tables with little room; the row itself says how many and when."""
    return "diverged" if row["diverged"] else ""


def setting(row: Mapping[str, Any]) -> str:
    """The column of the paper's table: `MNIST small`; of costs the dataset alone: the machine is not ours."""
    if row["model"] == COST:
        return str(row["setting"] if row["dataset"] == "-" else row["dataset"])
    return f"{row['dataset']} {row['setting']}"


def is_own(table: str) -> bool:
    """Whether the paper does not have a table."""
    return table.startswith(OWN_TABLE)


def count(amount: int, thing: str) -> str:
    """`1 seed`, `3 seeds`, `1,000 clients`."""
    return f"{amount:,} {thing}" + ("" if amount == 1 else "s")


def hours(amount: float) -> str:
    """`0.004`, `0.25`, `17.3`, `1,204`: about three digits that mean something."""
    digits = 3 if amount < 0.1 else 2 if amount < 10 else 1 if amount < 1000 else 0
    return f"{amount:,.{digits}f}"


def hardware(record: Mapping[str, Any]) -> str:
    """`AMD EPYC 7B13; cores 2; device cpu; threads 1`."""
    parts = dict(record["hardware"])
    return "; ".join([str(parts.pop("processor")), *(f"{name} {value}" for name, value in parts.items())])
