"""What single visits reported: every client that trained, in every round, and the same bytes after a stop."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from agreement import preset
from embedded import small_run, stopping_after, train_in
from fedbayes.io import VISITS_COLUMNS
from fedbayes.plan import Run

ROUNDS, ACTIVE = 3, 4


def self_fl() -> Run:
    """Self-FL on the embedded digits with 4 of 10 clients a round, two steps each at first."""
    spec = small_run(ROUNDS).spec
    return Run(
        spec
        | {"method": {"name": "selffl"} | preset("selffl", "reference")}
        | {"training": spec["training"] | {"clients_per_round": ACTIVE}}
        | {"local": spec["local"] | {"amount": 2}}
    )


def test_every_visit_is_kept_and_their_mean_is_the_round_s(tmp_path: Path) -> None:
    target = train_in(tmp_path, self_fl())
    visits = pd.read_parquet(target / "visits.parquet")
    assert tuple(visits.columns) == VISITS_COLUMNS and set(visits["metric"]) == {"steps"}
    assert visits.groupby("round")["client"].agg(["size", "nunique"]).to_numpy().tolist() == [[ACTIVE, ACTIVE]] * ROUNDS
    assert set(visits["client"]) <= set(range(10))
    rounds = pd.read_parquet(target / "rounds.parquet").query("model == 'train' and metric == 'steps'")
    means = visits.groupby("round")["value"].mean()
    assert rounds.set_index("round")["value"].to_dict() == pytest.approx(means.to_dict())
    assert set(visits.loc[visits["round"] == 1, "value"]) == {2.0}, "nobody knows a variance yet"


def test_a_method_that_asks_for_nothing_leaves_an_empty_table(tmp_path: Path) -> None:
    visits = pd.read_parquet(train_in(tmp_path, small_run(1)) / "visits.parquet")
    assert tuple(visits.columns) == VISITS_COLUMNS and visits.empty


def test_visits_before_a_stop_are_not_lost(tmp_path: Path) -> None:
    calm = train_in(tmp_path / "calm", self_fl())
    with stopping_after(2):
        train_in(tmp_path / "rough", self_fl(), checkpoint_seconds=0)
    rough = train_in(tmp_path / "rough", self_fl())
    assert (rough / "visits.parquet").read_bytes() == (calm / "visits.parquet").read_bytes()
