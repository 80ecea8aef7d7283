"""A real small run on the embedded digits, for tests that need real artefacts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from artefacts import make_plan
from fedbayes.config import Execution
from fedbayes.data.fetch import fetch
from fedbayes.data.splits import make_split
from fedbayes.federation import checkpoint
from fedbayes.plan import Run
from fedbayes.runs.evaluate import evaluate
from fedbayes.runs.train import train


def small_run(rounds: int = 4, **method: float) -> Run:
    """The smoke run of pFedBayes' Table 1 with some rounds of 20 batches of 20, the window over their second half."""
    spec = make_plan().cells[0].run.spec
    return Run(
        spec
        | {"training": spec["training"] | {"rounds": rounds}, "method": spec["method"] | method}
        | {"local": spec["local"] | {"batch": 20, "amount": 20}}
        | {"protocol": spec["protocol"] | {"window": [rounds // 2, rounds], "models": ["pm", "gm"]}}
    )


def prepare(folder: Path, run: Run) -> tuple[Path, Path]:
    """The dataset's arrays and the split below `folder`, made once."""
    dataset, split = folder / "mnist-5k", folder / "split.npz"
    if not split.exists():
        fetch("mnist-5k", make_plan().datasets["mnist-5k"], dataset, None)
        make_split(dataset, run.split, 0, split, None)
    return dataset, split


@contextmanager
def stopping_after(last: int) -> Iterator[None]:
    """A block in which training stops as soon as the checkpoint of a round is written."""

    class Stop(Exception):
        pass

    def save_and_stop(target: Path, round_: int, *args: Any) -> None:
        save(target, round_, *args)
        if round_ == last:
            raise Stop

    save = checkpoint.save
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Stop):
        patched.setattr(checkpoint, "save", save_and_stop)
        yield


def on(device: str, **more: float) -> Execution:
    """What `devices.claimed` gives a job: also a device that nobody may ask for."""
    return Execution(**more).model_copy(update={"device": device})


def evaluate_in(folder: Path, run: Run, target: Path, device: str = "cpu") -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables `evaluation` and `predictions` of a run trained into `target`, which are written into `folder`."""
    dataset, split = prepare(target.parent, run)
    files = (folder / "evaluation.parquet", folder / "predictions.parquet")
    evaluate(run, target / "state.safetensors", dataset, split, None, *files, on(device))
    return pd.read_parquet(files[0]), pd.read_parquet(files[1])


def train_in(folder: Path, run: Run, checkpoint_seconds: float = 60.0, code: str = "test", device: str = "cpu") -> Path:
    """Train into `folder/run` and return that folder."""
    dataset, split = prepare(folder, run)
    target = folder / "run"
    train(
        run,
        code,
        dataset,
        split,
        None,
        target,
        on(device, checkpoint_seconds=checkpoint_seconds),
        show=lambda line: None,
    )
    return target
