"""The printed numbers of all papers, read from `config/published.csv` and converted once to our units.

Papers print percent, we compute fractions; papers write `acc_GM_pct`, we write accuracy of the model `gm`. One table,
`MEANINGS`, says what each printed metric is in our words. The text as printed is kept for display.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import product
from pathlib import Path
from typing import Literal, cast

import pandas as pd

from fedbayes.config import ModelKind
from fedbayes.reading import choice, complain

KEY = ["paper", "table", "dataset", "setting", "method", "metric"]
COLUMNS = [*KEY, "value", "std", "doubtful", "note"]

# What papers print where there is no number: not available, or a factor left as a symbol.
NOT_AVAILABLE = "NA"
NOT_NUMBERS = {NOT_AVAILABLE, "M", "2Z"}


@dataclass(frozen=True)
class Meaning:
    """A printed metric in our words.

    Attributes:
        model: the model it tests; None where the paper names none: the one our method tests, personal before global;
            `cost` where it is about what a run costs.
        metric: our name of the metric.
        scope: pooled over all clients' test samples, mean over clients, or the worst client.
        unit: what stands after the printed number.
        factor: one printed unit in ours.
        higher_is_better: which direction is the better one.
        selection: which of a run's states it is taken from (`summarize.py`).
        by_machine: whether it is a time, which another machine changes.
        beside: the metric that divides it by another method's (`run_cost.FACTORS`); it is shown beside it.
        base: the method that a factor refers to, whose own is 1.
        condition: what it is tested on; empty for what the setting says (all test samples, or a group of them).
        also: metrics of ours that are shown beneath it, for which the paper prints no value.
    """

    model: ModelKind | Literal["cost"] | None
    metric: str
    scope: str = "pooled"
    unit: str = ""
    factor: str = "1"
    higher_is_better: bool = False
    selection: str = "best"
    by_machine: bool = False
    beside: str = ""
    base: str = ""
    condition: str = ""
    also: tuple[str, ...] = ()


def _accuracy(model: ModelKind | None) -> Meaning:
    return Meaning(model, "accuracy", unit="%", factor="0.01", higher_is_better=True)


def _unprinted() -> dict[str, Meaning]:
    """Metrics of ours that no paper prints, of each model; newcomers are tested once training has ended."""
    found: dict[str, Meaning] = {}
    models: tuple[ModelKind, ...] = ("pm", "gm")
    for model in models:
        found |= {
            f"acc_{model.upper()}_pct": _accuracy(model),
            f"nll_{model.upper()}": Meaning(model, "nll"),
            f"ECE_{model.upper()}": Meaning(model, "ece15"),
            f"ECE10_{model.upper()}_pct": Meaning(model, "ece10", unit="%", factor="0.01"),
        }
    found |= {f"{name}_new": replace(of, condition="new", selection="last") for name, of in found.items()}
    for model, metric in product(models, ("error", "distance")):
        found[f"{metric}_{model.upper()}"] = Meaning(model, metric, scope="mean", selection="last")
    return found


MEBI = str(2**20)
MEANINGS = _unprinted() | {
    "acc_pct": _accuracy(None),
    # FedUAB: whether the personal model beats the global one can only be told on the same samples.
    "personal_acc_pct": replace(_accuracy("pm"), also=("local_acc_pct",)),
    "local_acc_pct": replace(_accuracy("gm"), condition="local"),
    "global_acc_pct": _accuracy("gm"),
    "personal_loss_nll": Meaning("pm", "nll", also=("local_loss_nll",)),
    "local_loss_nll": Meaning("gm", "nll", condition="local"),
    "global_loss_nll": Meaning("gm", "nll"),
    # BPFed: 10 bins, pooled. Its text names MCE and the Brier score, too, and prints neither.
    "ECE_pct": Meaning(None, "ece10", unit="%", factor="0.01", also=("MCE_pct", "Brier")),
    "MCE_pct": Meaning(None, "mce10", unit="%", factor="0.01"),
    "Brier": Meaning(None, "brier"),
    # LR-BPFL: 15 bins, the mean over clients [docs/papers/lrbpfl.md, 7]; the pooled value stands beside it.
    "ECE": Meaning(None, "ece15", scope="mean"),
    "MCE": Meaning(None, "mce15", scope="mean"),
    "A-ECE": Meaning(None, "ece15", scope="mean"),
    "W-ECE": Meaning(None, "ece15", scope="worst"),
    # Of the last round: with one keyword among ten samples, the most accurate model may be the untrained one.
    "relative_FA": Meaning("gm", "relative_fa", selection="last"),
    "n_weights": Meaning("cost", "weights"),
    "parameters_M": Meaning("cost", "weights", unit="M", factor=MEBI),  # LR-BPFL counts in 2^20
    "communication_MB": Meaning("cost", "bytes", unit="MB", factor=MEBI),
    "train_time_s_per_update": Meaning(
        "cost", "seconds_per_update", unit="s", by_machine=True, beside="train_time_beside_pFedBayes"
    ),
    "train_time_beside_pFedBayes": Meaning(
        "cost", "time_beside_pfedbayes", unit="x", by_machine=True, base="pFedBayes"
    ),
    "communication_factor": Meaning("cost", "communication_factor", base="FedAvg"),
    "space_factor": Meaning("cost", "space_factor", base="FedAvg"),
    "time_factor": Meaning("cost", "time_factor", by_machine=True, base="FedAvg"),
}


def meaning_of(metric: str, file: str = "config/published.csv") -> Meaning:
    """What a printed metric is in our words."""
    if metric not in MEANINGS:
        raise complain(file, "metric", "unknown metric: " + choice(metric, MEANINGS))
    return MEANINGS[metric]


def read_published(file: Path) -> pd.DataFrame:
    """One row per printed number: `value` and `std` in our units, `printed` and `unit` as the paper has them.

    A number printed twice in one table comes once, with the notes of both places.
    """
    rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    if list(rows.columns) != COLUMNS:
        raise complain(str(file), "header", f"found {','.join(rows.columns)}; expected {','.join(COLUMNS)}")
    rows = _once(rows, str(file))
    rows["unit"] = [meaning_of(metric, str(file)).unit for metric in rows["metric"]]
    rows["printed"] = rows["value"] + rows["std"].map(lambda std: f" ± {std}" if std else "")
    for column in ("value", "std"):
        pairs = zip(rows[column], rows["metric"], strict=True)
        rows[column] = [_ours(text, metric, str(file)) for text, metric in pairs]
    return rows


def _once(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    """The rows without repetitions; a repetition must not contradict the first place."""
    kept: dict[tuple[str, ...], dict[str, str]] = {}
    for row in cast(list[dict[str, str]], rows.to_dict("records")):
        key = tuple(row[column] for column in KEY)
        first = kept.setdefault(key, row)
        if (first["value"], first["std"]) != (row["value"], row["std"]):
            raise complain(file, " / ".join(key), f"printed as {first['value']} and as {row['value']}; expected one")
        for column in ("doubtful", "note"):
            if row[column] not in first[column]:
                first[column] = "; ".join(filter(None, [first[column], row[column]]))
    return pd.DataFrame(list(kept.values()), columns=COLUMNS)


def _ours(text: str, metric: str, file: str) -> float:
    """A printed number in our unit, exact to the last digit; NaN where the paper prints none."""
    if not text or text in NOT_NUMBERS:
        return float("nan")
    try:
        return float(Decimal(text) * Decimal(MEANINGS[metric].factor))
    except InvalidOperation:
        raise complain(file, metric, f"found {text!r}; expected a number or {', '.join(sorted(NOT_NUMBERS))}") from None
