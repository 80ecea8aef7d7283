"""What runs cost: numbers by hand, factors within a setting and seed, and printed costs beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedbayes.analysis.compare import compare, printed_only, read_reproduction
from fedbayes.analysis.matrix import matrix
from fedbayes.analysis.run_cost import cost_values, factors, training_seconds
from fedbayes.analysis.summarize import CELL, over_seeds
from fedbayes.analysis.tables import make_table
from fedbayes.analysis.verdict import DERIVED
from fedbayes.io import EVALUATION_COLUMNS

SPEC = {
    "training": {"rounds": 5, "clients_per_round": 10, "trains": "selected"},
    "protocol": {"every": 2},
}
RECORD: dict[str, Any] = {
    "spec": SPEC,
    "floats": {"down": 300, "up": 100, "kept": 7},
    "round_ended": [],
    "steps": [20.0],
}
SIZED = pd.DataFrame([("last", 5, "cost", "clean", -1, 0, "weights", 330.0)], columns=list(EVALUATION_COLUMNS))
HEADER = "paper,table,dataset,setting,method,metric,value,std,doubtful,note"


def costs(record: dict[str, Any], evaluation: pd.DataFrame = SIZED) -> dict[str, float]:
    values = cost_values(record, evaluation)
    assert set(values["model"]) == {"cost"} and set(values["selection"]) == {"run"}
    return dict(zip(values["metric"], values["value"], strict=True))


def test_costs_by_hand() -> None:
    # The median of 2, 4 and 6 s; the first round, which may compile, does not count. 10 clients of 20 steps.
    found = costs(RECORD | {"round_seconds": [90.0, 6.0, 2.0, 4.0]})
    assert found == {"bytes": 400.0, "weights": 330.0, "seconds_per_round": 4.0, "seconds_per_update": 0.02}


@pytest.mark.parametrize(
    ("steps", "update"),
    [
        ([1.0], 0.4),  # pFedGP: one step on all data
        ([20.0, 20.0], 0.02),  # LR-BPFL `paper`: a mask step and a W step
        ([20.0, 1.0], 0.02),  # `one-w-step`: a mask step and a twentieth of a W step
        ([15.0, 1.0], 4 / 150),  # `reference`
        ([2.5], 0.16),  # epochs of clients of unequal size, on average
    ],
)
def test_an_update_is_a_step_of_the_longest_phase(steps: list[float], update: float) -> None:
    # 4 s for 10 clients.
    assert costs(RECORD | {"round_seconds": [1.0, 4.0], "steps": steps})["seconds_per_update"] == pytest.approx(update)


def test_rounds_in_which_all_train_and_records_without_steps_have_no_update_to_count() -> None:
    all_train = {"spec": SPEC | {"training": SPEC["training"] | {"trains": "all"}}}
    for change in (all_train, {"steps": []}):
        found = costs(RECORD | {"round_seconds": [1.0, 4.0]} | change)
        assert found["seconds_per_round"] == 4.0 and "seconds_per_update" not in found
    unknown = {name: value for name, value in RECORD.items() if name != "steps"}
    assert "seconds_per_update" not in costs(unknown | {"round_seconds": [1.0, 4.0]})


def test_records_without_seconds_of_rounds_tell_them_by_rounds_without_a_test() -> None:
    # Rounds end at 10, 13 (tested), 14, 19 (tested), 30 (the last, tested): round 3 alone took training only.
    assert training_seconds(RECORD | {"round_ended": [10.0, 13.0, 14.0, 19.0, 30.0]}) == [1.0]
    assert "seconds_per_round" not in costs(RECORD | {"round_ended": [10.0, 13.0]}, SIZED.iloc[:0])


def of_methods(seconds: dict[str, float], **cell: str) -> pd.DataFrame:
    """Costs of methods in one setting of a made-up paper, as `summarize` lays them out."""
    rows = [
        cost_values(RECORD | {"round_seconds": [0.0, value]}, SIZED).assign(method=method)
        for method, value in seconds.items()
    ]
    place = {"paper": "p", "experiment": "table1", "setting": "s", "scale": "paper", "published_table": "Table1"}
    place |= {
        "published_dataset": "D",
        "published_setting": "S",
        "published_condition": "clean",
        "run": "r",
        "diverged": "",
    }
    nothing = dict.fromkeys([column for column in CELL if column != "method"], "")
    return pd.concat(rows).assign(**nothing | place | cell, seed=0)


def test_factors_refer_to_the_method_in_the_same_setting() -> None:
    near = of_methods({"FedAvg": 2.0, "pFedBayes": 5.0})
    far = of_methods({"FedAvg": 10.0, "pFedBayes": 5.0}, setting="other")
    alone = of_methods({"pFedBayes": 5.0}, setting="alone")
    found = factors(pd.concat([near, far, alone])).set_index(["setting", "method", "metric"])["value"]
    assert found["s", "pFedBayes", "time_factor"] == 2.5 and found["s", "FedAvg", "time_factor"] == 1.0
    assert found["other", "pFedBayes", "time_factor"] == 0.5
    assert found["s", "FedAvg", "time_beside_pfedbayes"] == pytest.approx(0.4)
    assert found["s", "pFedBayes", "space_factor"] == found["s", "pFedBayes", "communication_factor"] == 1.0
    assert ("alone", "pFedBayes", "time_factor") not in found.index


@pytest.fixture
def compared(tmp_path: Path) -> pd.DataFrame:
    """A printed table of costs beside ours, at scale paper with three seeds."""
    one = of_methods({"FedAvg": 2.0, "pFedBayes": 5.0, "Mine": 3.0})
    by_seed = pd.concat([one.assign(seed=seed) for seed in range(3)])
    over_seeds(pd.concat([by_seed, factors(by_seed)])).to_parquet(tmp_path / "summary.parquet")
    printed = [
        "Mine,train_time_s_per_update,0.02,,,",
        "Mine,n_weights,330,,,",
        "Mine,time_factor,2Z,,,",
        "pFedBayes,train_time_s_per_update,0.04,,,",
        "FedAvg,space_factor,1,,,",
        "FedPop,space_factor,M,,,",
    ]
    lines = [HEADER, *(f"P,Table1,D,S,{line}" for line in printed)]
    (tmp_path / "published.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    compare(tmp_path / "summary.parquet", tmp_path / "published.csv", "P", "p", "paper", tmp_path / "out.csv")
    return read_reproduction(tmp_path / "out.csv")


def test_printed_costs_stand_beside_ours(compared: pd.DataFrame) -> None:
    rows = compared.set_index(["method", "metric"])
    assert rows.loc[("Mine", "n_weights"), ["ours", "verdict"]].tolist() == [330.0, "reproduced"]
    time = rows.loc[("Mine", "train_time_s_per_update")]
    assert time["ours"] == pytest.approx(0.015) and time["why_no_verdict"] == "other hardware"
    ratio = rows.loc[("Mine", "train_time_beside_pFedBayes")]
    assert (ratio["printed"], ratio["note"], ratio["why_no_verdict"]) == ("0.50", "0.02 / 0.04", DERIVED)
    assert ratio["published"] == 0.5 and ratio["ours"] == pytest.approx(0.6)
    assert rows.loc[("Mine", "time_factor"), "ours"] == 1.5
    assert rows.loc[("Mine", "time_factor"), "why_no_verdict"] == "other hardware; no number printed"
    assert rows.loc[("FedAvg", "space_factor"), "why_no_verdict"] == "1 by definition"
    assert rows.loc[("FedPop", "space_factor"), "status"] == "not run"
    assert len(printed_only(compared)) == 6, "ratios are not printed numbers"


def test_a_table_of_costs_names_no_model(compared: pd.DataFrame) -> None:
    lines = matrix(compared).lines
    assert {line.model for line in lines if line.method == "Mine"} == {
        "training time of an update (s)",
        "training time, pFedBayes being 1 (x)",
        "numbers of a client's model",
        "training time, FedAvg being 1",
    }
    reading = make_table(compared, "table1").reading
    assert "Costs belong to a whole run" in reading and "is not in the paper" not in reading
    printed = {(line.method, line.metric): line.entries[0].text for line in lines if line.published}
    assert printed["Mine", "train_time_beside_pFedBayes"] == "0.50" and printed["Mine", "time_factor"] == "2Z"
