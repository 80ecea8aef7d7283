"""`make status` beside a real Snakemake: a run that is done, one whose data are broken, one that is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from checkout import copy_project, snakemake_process
from fedbayes.attempts import history_of, read_attempts
from fedbayes.data.fetch import fetch
from fedbayes.data.splits import make_split
from fedbayes.plan import Plan, Run, load_plan
from fedbayes.reading import read_yaml
from fedbayes.status.runs import checkpoint_round, log_of

pytestmark = pytest.mark.slow


def prepare(folder: Path) -> Plan:
    """Two seeds; Table 2 trains long enough to be caught, and keeps a checkpoint of every round."""
    config, paper = folder / "config/config.yaml", folder / "config/papers/pfedbayes.yaml"
    chosen = {"experiments": ["table1", "table2"], "seeds": [0, 1]}
    execution = {"execution": {"checkpoint_seconds": 0, "compile": False}}
    config.write_text(yaml.safe_dump(read_yaml(config, "") | chosen | execution))
    content = read_yaml(paper, "")
    content["scales"]["smoke"]["experiments"] = {"table2": {"training": {"rounds": 700}}}
    paper.write_text(yaml.safe_dump(content, sort_keys=False))
    return load_plan(read_yaml(config, ""), folder)


def make_data(folder: Path, plan: Plan, run: Run) -> None:
    """What the rules `fetch` and `partition` make."""
    dataset = folder / "resources" / run.dataset
    fetch(run.dataset, plan.datasets[run.dataset], dataset, None)
    make_split(dataset, run.split, run.spec["seed"], folder / plan.split_file(run), None)


def status(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fedbayes.status"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not what():
        assert process.poll() is None, "Snakemake ended before that"
        time.sleep(0.05)


def about(text: str, run: Run) -> list[str]:
    """The lines on a run, from its name to the next run or block."""
    return re.split(r"\n(?=  [0-9a-f]{12}  |\n)", text[text.index(run.id) :])[0].splitlines()


def test_done_failed_killed_and_running_runs_are_told_apart(tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    plan = prepare(folder)
    good, broken = (
        next(cell.run for cell in plan.cells if cell.method == "FedAvg" and cell.seed == seed) for seed in (0, 1)
    )
    killed = next(cell.run for cell in plan.cells if cell.experiment == "table2" and cell.seed == 0)
    make_data(folder, plan, good)
    split = folder / plan.split_file(broken)
    split.parent.mkdir(parents=True)
    split.write_text("no split at all")

    log = folder / log_of("train", killed)
    targets = [f"{run.folder}/evaluation.parquet" for run in (good, broken, killed)]
    with snakemake_process(folder, "--cores", "2", "--", *targets) as process:
        wait_for(lambda: (checkpoint_round(folder / killed.folder) or 0) >= 2, process)
        text = status(folder)
        assert re.search(r"train: round \d+/700, loss .*, pm 0\.\d+, .* s, \d+ MB, .* left \(\d+ s ago\)", text)
        assert killed.id in text[text.index("Running:") :]
        (attempt,) = read_attempts(history_of(log))
        os.kill(attempt.process, signal.SIGKILL)
        said, _ = process.communicate(timeout=120)

    assert process.returncode != 0
    text = status(folder)
    counts = dict(zip(*(line.split() for line in text.splitlines()[1:3]), strict=True))
    assert {state: counts[state] for state in ("done", "running", "failed", "stopped")} == {
        "done": "1", "running": "0", "failed": "1", "stopped": "1"
    }  # fmt: skip
    assert good.id not in text
    *lines, where, retry = about(text, broken)
    sentence = read_attempts(folder / log_of("train", broken))[-1].reason
    unwrapped = " ".join(" ".join(lines).split())
    assert plan.split_file(broken) in sentence and f"train: {sentence}; starts anew" in unwrapped
    assert log_of("train", broken) in where
    assert retry.strip() == f"snakemake --cores all -- {broken.folder}/evaluation.parquet"
    # What Snakemake itself shows on the terminal.
    assert sentence in said and f"Logfile {log_of('train', broken)}:" in said
    at = checkpoint_round(folder / killed.folder)
    assert f"ended without a word: killed, or its machine went down; goes on from round {at} of 700" in text
    assert f"  snakemake --cores all -- {killed.folder}/evaluation.parquet" in about(text, killed)[-1]
    assert f"Logfile {log_of('train', killed)}:" in said
    assert len(re.findall(r"round \d+/700", history_of(log).read_text())) >= at
