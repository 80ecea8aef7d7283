"""Warm starts: a run begins exactly where another ended, after a kill too, and only with the same network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from embedded import prepare, small_run
from fedbayes.config import Execution
from fedbayes.federation import checkpoint
from fedbayes.federation.loop import start
from fedbayes.io import file_sha256, read_json, read_state
from fedbayes.plan import Run
from fedbayes.reading import ConfigError
from fedbayes.runs.assemble import assemble
from fedbayes.runs.evaluate import evaluate
from fedbayes.runs.train import train


def warm_run(first: Run, rounds: int = 2, **sections: Any) -> Run:
    """FedAvg again, from where `first` ended."""
    return Run(small_run(rounds).spec | {"warm_start": first.id} | sections)


def trained(folder: Path, run: Run, target: Path, start_file: Path | None = None, seconds: float = 60.0) -> Path:
    dataset, split = prepare(folder, run)
    execution = Execution(checkpoint_seconds=seconds)
    train(run, "test", dataset, split, None, target, execution, lambda line: None, start_file=start_file)
    return target


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rounds of FedAvg."""
    folder = tmp_path_factory.mktemp("first")
    return trained(folder, small_run(3), folder / "first")


def test_it_begins_with_the_last_global_weights_of_the_other_run(first: Path, tmp_path: Path) -> None:
    run, state_file = warm_run(small_run(3)), first / "state.safetensors"
    dataset, split = prepare(first.parent, run)
    ended = read_state(state_file)
    begun = start(assemble(run.spec, dataset, split, None, Execution(), start_file=state_file)).server.weights
    assert begun and all(torch.equal(weights, ended[f"last/server/weights/{name}"]) for name, weights in begun.items())
    target = trained(first.parent, run, tmp_path / "warm", state_file)
    before, after = (pd.read_parquet(folder / "rounds.parquet") for folder in (first, target))
    tested = "model == 'gm' and round == {}"
    assert after.query(tested.format(0))["value"].tolist() == before.query(tested.format(3))["value"].tolist()
    record = read_json(target / "run.json")
    assert record["start"] == {"path": state_file.as_posix(), "sha256": file_sha256(state_file)}
    assert record["spec"]["warm_start"] == small_run(3).id


def test_it_is_evaluated_and_goes_on_after_a_kill_to_the_same_bytes(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, state_file = warm_run(small_run(3)), first / "state.safetensors"
    calm = trained(first.parent, run, tmp_path / "calm", state_file)
    save = checkpoint.save

    def stop(*args: Any) -> None:
        save(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        trained(first.parent, run, tmp_path / "rough", state_file, seconds=0)
    monkeypatch.setattr(checkpoint, "save", save)
    rough = trained(first.parent, run, tmp_path / "rough", state_file, seconds=0)
    for name in ("state.safetensors", "rounds.parquet"):
        assert (rough / name).read_bytes() == (calm / name).read_bytes()
    dataset, split = prepare(first.parent, run)
    files = tmp_path / "evaluation.parquet", tmp_path / "predictions.parquet"
    evaluate(run, calm / "state.safetensors", dataset, split, None, *files, Execution(), start_file=state_file)
    rounds = pd.read_parquet(calm / "rounds.parquet").query("round == 2 and model == 'gm' and scope == 'pooled'")
    found = pd.read_parquet(files[0]).query("state == 'last' and model == 'gm' and client == -1")
    found = found[~found["metric"].str.startswith("auroc")]  # of evaluations alone
    assert found.set_index("metric")["value"].to_dict() == rounds.set_index("metric")["value"].to_dict()


def test_another_network_is_refused_in_one_sentence(first: Path) -> None:
    run = warm_run(small_run(3), network={"name": "mlp", "hidden": [50]})
    dataset, split = prepare(first.parent, run)
    with pytest.raises(ConfigError) as caught:
        assemble(run.spec, dataset, split, None, Execution(), start_file=first / "state.safetensors")
    sentence = str(caught.value)
    assert (
        "state.safetensors: last/server/weights/head.weight: found shape (10, 100); expected shape (10, 50)" in sentence
    )
    assert "\n" not in sentence


def test_a_warm_start_without_its_state_and_a_state_without_a_warm_start_are_refused(first: Path) -> None:
    run, state_file = warm_run(small_run(3)), first / "state.safetensors"
    dataset, split = prepare(first.parent, run)
    for spec, file in ((run.spec, None), (small_run(3).spec, state_file)):
        with pytest.raises(ValueError, match="a warm-started run needs the state"):
            assemble(spec, dataset, split, None, Execution(), start_file=file)


def test_training_samples_are_tested_where_the_protocol_asks_for_it(first: Path, tmp_path: Path) -> None:
    spec = small_run(3).spec
    run = Run(spec | {"protocol": spec["protocol"] | {"on_training": True}})
    rounds = pd.read_parquet(trained(first.parent, run, tmp_path / "run") / "rounds.parquet")
    plain = pd.read_parquet(first / "rounds.parquet")
    assert rounds[rounds["condition"] != "train"].reset_index(drop=True).equals(plain), "nothing else changes"
    accuracy = rounds.query("condition == 'train' and metric == 'accuracy' and scope == 'pooled'")
    assert accuracy.groupby("model")["round"].apply(list).to_dict() == {"gm": [0, 1, 2, 3], "pm": [0, 1, 2, 3]}
    tested = plain.query("metric == 'accuracy' and scope == 'pooled' and model == 'pm' and round == 3")["value"].item()
    assert accuracy.query("model == 'pm' and round == 3")["value"].item() > tested, "what was learned is known best"
