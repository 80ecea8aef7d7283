"""The training job: its artefacts, and the same bytes after any number of kills."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

from agreement import preset
from artefacts import METRICS
from embedded import evaluate_in, prepare, small_run, stopping_after, train_in
from fedbayes.analysis.summarize import run_values
from fedbayes.config import Execution
from fedbayes.data.splits import read_split
from fedbayes.federation import checkpoint
from fedbayes.io import EVALUATION_COLUMNS, ROUNDS_COLUMNS, read_json, read_state
from fedbayes.plan import Run
from fedbayes.reading import ConfigError
from fedbayes.runs import train as training
from fedbayes.runs.assemble import assemble
from fedbayes.runs.provenance import dataset_record

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_in(tmp_path_factory.mktemp("trained"), small_run())


def test_rounds_hold_every_model_scope_and_metric(trained: Path) -> None:
    rounds = pd.read_parquet(trained / "rounds.parquet")
    assert tuple(rounds.columns) == ROUNDS_COLUMNS
    tested = rounds[rounds["model"] != "train"]
    assert len(tested) == 5 * 2 * 3 * len(METRICS) and set(tested["metric"]) == set(METRICS)
    assert sorted(rounds.loc[rounds["model"] == "train", "round"]) == [1, 2, 3, 4]
    accuracy = tested[(tested["metric"] == "accuracy") & (tested["model"] == "gm")].pivot(
        index="round", columns="scope", values="value"
    )
    assert (accuracy["worst"] <= accuracy["mean"]).all()
    # Test sets are of one size here, so the pooled accuracy is the clients' mean.
    assert accuracy["mean"].to_numpy() == pytest.approx(accuracy["pooled"].to_numpy())


def test_the_network_learns(trained: Path) -> None:
    rounds = pd.read_parquet(trained / "rounds.parquet").set_index(["model", "scope", "metric", "round"])["value"]
    assert rounds["gm", "pooled", "accuracy", 4] > rounds["gm", "pooled", "accuracy", 0] + 0.3
    assert rounds["pm", "pooled", "accuracy", 4] > rounds["gm", "pooled", "accuracy", 4]


def test_kept_states_are_the_last_and_the_best_of_the_window(trained: Path) -> None:
    state, record = read_state(trained / "state.safetensors"), read_json(trained / "run.json")
    assert {name.split("/")[0] for name in state} == {"last", "best-pm", "best-gm"}
    assert int(state["last/round"]) == 4
    rounds = pd.read_parquet(trained / "rounds.parquet")
    for model in ("pm", "gm"):
        pooled = rounds[(rounds["model"] == model) & (rounds["metric"] == "accuracy") & (rounds["scope"] == "pooled")]
        window = pooled[pooled["round"] >= 2]
        best = int(window.loc[window["value"].idxmax(), "round"])
        assert int(state[f"best-{model}/round"]) == best == record["best_round"][model]


def test_states_of_single_rounds_are_kept_across_a_restart(tmp_path: Path) -> None:
    """Stopped after round 3 and started again, as undisturbed; the state of round 2 is that of a run of two rounds."""
    spec = small_run().spec
    run = Run(spec | {"protocol": spec["protocol"] | {"keep": [0, 2]}})
    calm = train_in(tmp_path / "calm", run)
    with stopping_after(3):
        train_in(tmp_path / "rough", run, checkpoint_seconds=0)
    rough = train_in(tmp_path / "rough", run, checkpoint_seconds=0)
    assert (rough / "state.safetensors").read_bytes() == (calm / "state.safetensors").read_bytes()
    kept, short = (
        read_state(calm / "state.safetensors"),
        read_state(train_in(tmp_path, small_run(2)) / "state.safetensors"),
    )
    assert {name.split("/")[0] for name in kept} == {"last", "best-pm", "best-gm", "round-0", "round-2"}
    for name, tensor in short.items():
        state, key = name.split("/", 1)
        assert state != "last" or torch.equal(kept[f"round-2/{key}"], tensor)
    found, predicted = evaluate_in(tmp_path, run, calm)
    assert dict(found[["state", "round"]].drop_duplicates().to_numpy())["round-2"] == 2
    assert set(predicted["state"]) == {"best-pm", "best-gm"}


def test_personal_models_may_be_tested_less_often(tmp_path: Path) -> None:
    plain = small_run(5)
    run = Run(plain.spec | {"protocol": plain.spec["protocol"] | {"every": 2, "pm_every": 3, "window": [1, 4]}})
    target = train_in(tmp_path, run)
    rounds = pd.read_parquet(target / "rounds.parquet")
    tested = {model: sorted(set(rows["round"])) for model, rows in rounds.groupby("model")}
    assert tested == {"gm": [0, 2, 4, 5], "pm": [0, 3, 5], "train": [1, 2, 3, 4, 5]}
    record = read_json(target / "run.json")
    assert record["best_round"]["pm"] == 3, "its only test within the window"
    assert int(read_state(target / "state.safetensors")["best-pm/round"]) == 3


def test_the_record_says_where_the_numbers_come_from(trained: Path) -> None:
    record = read_json(trained / "run.json")
    assert record["spec"] == small_run().spec and record["outcome"] == "finished" and record["lift"] == "vmap"
    assert record["floats"] == {"down": 79510, "up": 79510, "kept": 0}
    assert (record["gradients"], record["steps"]) == (20.0, [20.0])
    assert len(record["round_seconds"]) == 4 and 0 < sum(record["round_seconds"]) < record["seconds"]
    assert len(record["round_ended"]) == 4 and record["round_ended"] == sorted(record["round_ended"])
    assert record["dataset"]["name"] == "mnist-5k" and len(record["split"]["md5"]) == 32
    assert not (trained / "checkpoint").exists()


def test_evaluation_agrees_with_training_and_has_every_client(trained: Path, tmp_path: Path) -> None:
    run = small_run()
    found, predicted = evaluate_in(tmp_path, run, trained)
    assert tuple(found.columns) == EVALUATION_COLUMNS
    # Beside every client's metrics, how well confidence tells wrong from right.
    tested, cost = found[found["model"] != "cost"], found[found["model"] == "cost"]
    assert len(tested) == 3 * 2 * (11 * len(METRICS) + 1)
    assert cost[["state", "client", "metric", "value"]].to_numpy().tolist() == [["last", -1, "weights", 79510.0]]
    rounds = pd.read_parquet(trained / "rounds.parquet")
    for model in ("pm", "gm"):
        for metric in METRICS:
            during = rounds.query(f"round == 4 and model == '{model}' and scope == 'pooled' and metric == '{metric}'")[
                "value"
            ].item()
            after = found.query(f"state == 'last' and model == '{model}' and client == -1 and metric == '{metric}'")[
                "value"
            ].item()
            assert during == after
    assert set(zip(predicted["state"], predicted["model"], strict=True)) == {("best-pm", "pm"), ("best-gm", "gm")}
    for model, rows in predicted.groupby("model"):
        best = found[(found["state"] == f"best-{model}") & (found["model"] == model)]
        accuracy = best[best["metric"] == "accuracy"].set_index("client")["value"]
        right = rows["label"] == rows["predicted"]
        assert right.mean() == pytest.approx(accuracy[-1])
        assert right.groupby(rows["client"]).mean().to_dict() == pytest.approx(accuracy.drop(-1).to_dict())


def test_evaluation_records_what_a_method_tells_of_its_clients(tmp_path: Path) -> None:
    spec = small_run(1).spec
    fields = preset("lrbpfl", "paper", penalty=20.0, lr_gate=1.0) | {"name": "lrbpfl"}
    run = Run(spec | {"method": fields, "local": spec["local"] | {"amount": 2}})
    target = train_in(tmp_path, run)
    found, _ = evaluate_in(tmp_path, run, target)
    ranks = found.query("model == 'client' and state == 'last'")
    assert set(ranks["metric"]) == {"rank/hidden0", "rank/head"} and sorted(set(ranks["client"])) == list(range(10))
    assert set(ranks["value"]) == {1.0}, "a heavy penalty leaves the first rank"
    values = run_values(pd.read_parquet(target / "rounds.parquet"), found)
    assert set(values.loc[values["model"] == "client", "scope"]) == {"mean"}


def test_a_method_gives_notice_of_its_cost_and_is_looped_where_it_must_be(tmp_path: Path) -> None:
    spec = small_run(1).spec
    fields = preset("pfedgp", "paper", chains=1, test_chains=1, sweeps=0) | {"name": "pfedgp"}
    run, lines = Run(spec | {"method": fields}), list[str]()
    dataset, split = prepare(tmp_path, run)
    training.train(run, "test", dataset, split, None, tmp_path / "run", Execution(lift="vmap"), show=lines.append)
    sizes = [len(own) for own in read_split(split)[0].train]
    assert f"the largest client has n = {max(sizes)}, n^3 = {float(max(sizes)) ** 3:.1e}" in lines[0]
    assert "round 1/1" in lines[-1], "the notice comes before the first round"
    assert read_json(tmp_path / "run/run.json")["lift"] == "loop"


def test_a_damaged_checkpoint_is_said_and_does_not_change_the_result(
    trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Stop after round 3, truncate the newest checkpoint, start again."""
    with stopping_after(3):
        train_in(tmp_path, small_run(), checkpoint_seconds=0)
    newest = tmp_path / "run/checkpoint/round-000003/state.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    with caplog.at_level(logging.INFO, logger=training.LOG.name):
        train_in(tmp_path, small_run(), checkpoint_seconds=0)
    assert "round-000003 is not used" in caplog.text and "resumed after round 2" in caplog.text
    for name in ("state.safetensors", "rounds.parquet"):
        assert (tmp_path / "run" / name).read_bytes() == (trained / name).read_bytes()


def test_a_committed_split_with_other_content_is_refused(trained: Path) -> None:
    run = small_run()
    dataset, split = prepare(trained.parent, run)
    with pytest.raises(ConfigError, match=r"config/splits.csv.*expected a split with sha256 0123.*found"):
        assemble(run.spec, dataset, split, "0123", Execution())


def test_a_checkpoint_made_with_another_split_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = small_run()
    dataset, _ = prepare(tmp_path, run)
    foreign = {"run": run.id, "code": "test", "dataset": dataset_record(dataset)["sha256"], "split": "other"}
    checkpoint.save(tmp_path / "run/checkpoint", 3, foreign, {}, {})
    train_in(tmp_path, run)
    assert "another split (other, this is" in caplog.text


def test_a_checkpoint_of_other_code_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint.save(tmp_path / "run/checkpoint", 3, {"run": small_run().id, "code": "old"}, {}, {})
    train_in(tmp_path, small_run(), code="test")
    assert "another code (old, this is test)" in caplog.text


def kill_near_round(job: subprocess.Popen[bytes], folder: Path, round_: int, delay: float) -> None:
    """Kill -9 a little after a checkpoint of `round_` or later has appeared."""
    while job.poll() is None and not any(int(path.name[6:]) >= round_ for path in folder.glob("round-*")):
        time.sleep(0.001)
    time.sleep(delay)
    job.send_signal(signal.SIGKILL)
    job.wait()


@pytest.mark.slow
def test_killed_at_random_moments_the_state_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    """Every round writes a checkpoint, so kills fall into training, testing and writing alike."""
    calm, rough, chance = tmp_path / "calm", tmp_path / "rough", random.Random(0)
    script = (
        f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent)!r}]; import torch; torch.set_num_threads(1);"
        "from pathlib import Path; from embedded import small_run, train_in;"
        "train_in(Path(sys.argv[1]), small_run(40), checkpoint_seconds=0)"
    )
    subprocess.run([sys.executable, "-c", script, str(calm)], check=True)
    for round_ in sorted(chance.sample(range(1, 38), 4)):
        job = subprocess.Popen([sys.executable, "-c", script, str(rough)])
        kill_near_round(job, rough / "run/checkpoint", round_, chance.uniform(0, 0.1))
        assert job.returncode == -signal.SIGKILL
    assert not (rough / "run/state.safetensors").exists()
    subprocess.run([sys.executable, "-c", script, str(rough)], check=True)
    for name in ("state.safetensors", "rounds.parquet"):
        assert (rough / "run" / name).read_bytes() == (calm / "run" / name).read_bytes()


def test_a_diverging_run_is_a_result(tmp_path: Path) -> None:
    """A step size of 1e30 turns the loss into NaN: the run ends early, says so, and has a number for every test."""
    spec = small_run(rounds=6, lr=1e30).spec
    run = Run(spec | {"protocol": spec["protocol"] | {"pm_every": 6}})
    target = train_in(tmp_path, run)
    record = read_json(target / "run.json")
    assert record["outcome"] == "diverged" and "the training loss is" in record["diverged"]["reason"]
    stopped = record["diverged"]["round"]
    assert 1 <= stopped < 6 and len(record["round_ended"]) < 6
    rounds = pd.read_parquet(target / "rounds.parquet")
    accuracy = rounds.query("model == 'gm' and scope == 'pooled' and metric == 'accuracy'").set_index("round")["value"]
    assert list(accuracy.index) == list(range(7))
    assert sorted(set(rounds.loc[rounds["model"] == "pm", "round"])) == [0, stopped, 6]
    assert set(accuracy.loc[stopped:]) == {accuracy[stopped]} and accuracy[stopped] < 0.2
    assert not evaluate_in(tmp_path, run, target)[0].empty
