"""What a run cost, as metrics of a model called `cost`: size of a client's model, bytes it sends, seconds it takes.

- `weights`: numbers of a client's model (`evaluation/held.py`).
- `bytes`: what a client sends in a round, four bytes a number; one direction.
- `seconds_per_round`: training alone, without tests; the median over rounds, the first left out, which may compile.
- `seconds_per_update`: the same for one update of one client, by the steps that its visits really took. Where a visit
  has several phases (LR-BPFL: of the mask, then of W), an update is a step of the longest one with its share of the
  others' steps: 20 mask steps and 20 W steps are 20 updates of one of each, 15 and one are 15 updates.

Factors are the same numbers of a run divided by those of another method in the same setting and seed. Sizes and bytes
are exact; seconds are those of the machine, beside whatever else it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import median
from typing import Any

import pandas as pd

from fedbayes.io import COST

WHOLE = "run"  # the selection: a cost belongs to no round
BYTES_A_NUMBER = 4

# A factor: which cost, and the method whose cost is 1.
FACTORS = {
    "time_factor": ("seconds_per_round", "FedAvg"),
    "space_factor": ("weights", "FedAvg"),
    "communication_factor": ("bytes", "FedAvg"),
    "time_beside_pfedbayes": ("seconds_per_update", "pFedBayes"),
}
PLACE = ["paper", "experiment", "setting", "scale", "seed"]


def cost_values(record: Mapping[str, Any], evaluation: pd.DataFrame) -> pd.DataFrame:
    """The costs of one run, in the columns of `summarize.run_values`.

    Args:
        record: its `run.json`.
        evaluation: its `evaluation.parquet`; one made before sizes were counted has none.
    """
    found = {"bytes": float(BYTES_A_NUMBER * record["floats"]["up"])} if record.get("floats") else {}
    own = evaluation[evaluation["model"] == COST]
    found |= dict(zip(own["metric"], own["value"], strict=True))
    training = record["spec"]["training"]
    # A record made before steps were counted cannot tell them; one in which all train does not say how many these are.
    steps = max(record.get("steps", ()), default=0.0) if training["trains"] == "selected" else 0.0
    if rounds := training_seconds(record):
        found["seconds_per_round"] = median(rounds)
        if steps:
            found["seconds_per_update"] = found["seconds_per_round"] / (training["clients_per_round"] * steps)
    return pd.DataFrame({"metric": list(found), "value": list(found.values())}).assign(
        model=COST, condition="clean", scope="pooled", selection=WHOLE, round=""
    )


def training_seconds(record: Mapping[str, Any]) -> list[float]:
    """Seconds that rounds trained for, without the first.

    Records that do not tell them apart from tests tell when each round ended: those without a test give the same.
    """
    if "round_seconds" in record:
        return list(record["round_seconds"][1:])
    every, ended = record["spec"]["protocol"]["every"], record["round_ended"]
    gaps = enumerate((after - before for before, after in pairwise(ended)), start=2)
    return [gap for round_, gap in gaps if round_ % every and round_ < len(ended)]


def factors(by_seed: pd.DataFrame) -> pd.DataFrame:
    """Rows of the factors, for every cell in whose setting the method they refer to ran, too.

    Args:
        by_seed: values of all cells and seeds; of a method with several presets, the first is referred to.
    """
    costs = by_seed[by_seed["model"] == COST]
    parts = []
    for name, (metric, method) in FACTORS.items():
        own = costs[costs["metric"] == metric]
        base = own.loc[own["method"] == method, [*PLACE, "value"]].drop_duplicates(PLACE)
        paired = own.merge(base, on=PLACE, suffixes=("", "_of_base"))
        ratio = paired.assign(metric=name, value=paired["value"] / paired["value_of_base"])
        parts.append(ratio.drop(columns="value_of_base"))
    return pd.concat(parts, ignore_index=True)
