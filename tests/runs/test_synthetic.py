"""Self-FL's synthetic experiments as runs: errors in closed form, no best round, the same bytes after a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from artefacts import make_plan
from embedded import stopping_after
from fedbayes.analysis.summarize import run_values
from fedbayes.config import Execution
from fedbayes.data.fetch import fetch, load
from fedbayes.data.splits import make_split
from fedbayes.data.two_level_gaussian import local_estimates
from fedbayes.io import read_json, read_state
from fedbayes.plan import Run
from fedbayes.reading import ConfigError
from fedbayes.runs.assemble import assemble
from fedbayes.runs.evaluate import evaluate
from fedbayes.runs.train import train

REPEATS, ROUNDS = 3, 4
FILES = ("state.safetensors", "rounds.parquet", "visits.parquet")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two-levels")
    fetch("two-level-gaussian-1", make_plan().datasets["two-level-gaussian-1"], folder, None)
    return folder


def small_run(method: str, **training: int) -> Run:
    """A cell of Figure 4 with three repeats and four rounds."""
    cells = make_plan(papers=["selffl"]).cells_of("selffl")
    spec = next(c.run.spec for c in cells if c.experiment == "synthetic-homogeneous" and c.method == method)
    return Run(
        spec
        | {"split": spec["split"] | {"repeats": REPEATS}}
        | {"training": spec["training"] | {"rounds": ROUNDS} | training}
        | {"protocol": spec["protocol"] | {"every": 2, "window": [0, ROUNDS]}}
    )


def train_in(folder: Path, run: Run, dataset: Path, **execution: Any) -> Path:
    split = folder / "split.npz"
    make_split(dataset, run.split, 0, split, None)
    train(run, "test", dataset, split, None, folder / "run", Execution(**execution), show=lambda line: None)
    return folder / "run"


def evaluated(run: Run, folder: Path, dataset: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    targets = folder / "evaluation.parquet", folder / "predictions.parquet"
    state, split = folder / "state.safetensors", folder.parent / "split.npz"
    evaluate(run, state, dataset, split, None, *targets, Execution())
    return pd.read_parquet(targets[0]), pd.read_parquet(targets[1])


def fedavg_by_hand(dataset: Path) -> tuple[np.ndarray, np.ndarray]:
    """Server's and clients' estimates with everybody active: 50 steps leave a_m of the way to the local optimum."""
    data = load(dataset)
    z, n = (values[:REPEATS] for values in local_estimates(data.inputs, data.tables["users"]))
    left = (1 - 1e-4 * n / 0.1) ** 50
    common = np.zeros((REPEATS, 1))
    for _ in range(ROUNDS):
        personal = (1 - left) * z + left * common
        common = (n * personal).sum(1, keepdims=True) / n.sum(1, keepdims=True)
    return common[:, 0], personal


def test_errors_are_those_of_the_closed_form(dataset: Path, tmp_path: Path) -> None:
    run = small_run("FedAvg", clients_per_round=20)
    target = train_in(tmp_path, run, dataset)
    found, predicted = evaluated(run, target, dataset)
    common, personal = fedavg_by_hand(dataset)
    tables = load(dataset).tables
    theta, best = (tables[name][: 20 * REPEATS].reshape(REPEATS, 20) for name in ("theta", "theta_fl"))
    expected = {
        ("gm", "error"): abs(common - 1.6),
        ("gm", "distance"): abs(common - tables["theta_g"][:REPEATS]),
        ("pm", "error"): abs(personal - theta).mean(1),
        ("pm", "distance"): abs(personal - best).mean(1),
    }
    assert set(found["state"]) == {"last"} and predicted.empty and "confidence" in predicted
    values = found.set_index(["model", "metric", "client"])["value"].sort_index()
    for (model, metric), by_repeat in expected.items():
        assert values[model, metric].drop(-1).to_numpy() == pytest.approx(by_repeat, abs=1e-12)
        assert values[model, metric, -1] == pytest.approx(by_repeat.mean(), abs=1e-12)
    assert len(values) == len(expected) * (1 + REPEATS)


def test_nothing_is_best_and_the_last_round_is_what_was_tested_then(dataset: Path, tmp_path: Path) -> None:
    run = small_run("Self-FL")
    target = train_in(tmp_path, run, dataset)
    assert {name.split("/")[0] for name in read_state(target / "state.safetensors")} == {"last"}
    assert read_json(target / "run.json")["best_round"] == {}
    rounds, (tested, _) = pd.read_parquet(target / "rounds.parquet"), evaluated(run, target, dataset)
    values = run_values(rounds, tested)
    assert set(values.loc[values["model"] != "train", "selection"]) == {"last", "mean100"}
    for model in ("pm", "gm"):
        during = rounds.query(f"round == {ROUNDS} and model == '{model}' and scope == 'pooled' and metric == 'error'")
        after = tested.query(f"model == '{model}' and client == -1 and metric == 'error'")
        assert during["value"].item() == after["value"].item()
    assert pd.read_parquet(target / "visits.parquet").empty, "visits of replicates are not kept"


def test_a_stopped_run_goes_on_to_the_same_bytes(dataset: Path, tmp_path: Path) -> None:
    run = small_run("Self-FL", clients_per_round=10)
    calm = train_in(tmp_path / "calm", run, dataset)
    with stopping_after(2):
        train_in(tmp_path / "rough", run, dataset, checkpoint_seconds=0)
    rough = train_in(tmp_path / "rough", run, dataset)
    for name in FILES:
        assert (rough / name).read_bytes() == (calm / name).read_bytes()


def test_data_of_a_known_law_and_the_rule_repeats_belong_together(dataset: Path, tmp_path: Path) -> None:
    run = small_run("FedAvg")
    users = Run(run.spec | {"split": {"rule": "users", "train_share": 0.9}})
    make_split(dataset, users.split, 0, tmp_path / "split.npz", None)
    with pytest.raises(ConfigError, match=r"split.rule: found 'users', but 'two-level-gaussian-1' needs the rule"):
        assemble(users.spec, dataset, tmp_path / "split.npz", None, Execution())


def test_models_that_are_not_single_numbers_are_refused(dataset: Path, tmp_path: Path) -> None:
    spec = small_run("FedAvg").spec
    plan = make_plan(papers=["pfedbayes"])
    method = next(run.spec["method"] for run in plan.runs.values() if run.method == "pfedbayes")
    run = Run(spec | {"method": method, "protocol": spec["protocol"] | {"personal": None}})
    with pytest.raises(ConfigError, match="not single numbers"):
        train_in(tmp_path, run, dataset)
