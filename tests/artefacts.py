"""A finished campaign made by hand: real plan, invented numbers, the real file formats.

For tests of what comes after training (summary, comparison, tables, tracking): quick, and every number is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedbayes.io import EVALUATION_COLUMNS, ROUNDS_COLUMNS, write_json, write_rows
from fedbayes.plan import Plan, Run, load_plan

ROOT = Path(__file__).parents[1]
METRICS = ("accuracy", "nll", "ece10", "ece15", "mce10", "mce15", "brier")
CLIENTS = 10


def make_plan(**config: Any) -> Plan:
    """The project's own plan: scale smoke unless said otherwise."""
    return load_plan({"scale": "smoke", "papers": ["pfedbayes"]} | config, ROOT)


def accuracy_at(run: Run, round_: int) -> float:
    """The invented pooled accuracy: rises with the round, differs by 0.01 a seed, peaks before the last round."""
    rounds = run.spec["training"]["rounds"]
    progress = min(round_, rounds - 2) / rounds - (0.01 if round_ > rounds - 2 else 0.0)
    return 0.5 + 0.4 * progress + 0.01 * run.spec["seed"]


def write_run(folder: Path, run: Run) -> None:
    """Write `rounds.parquet`, `evaluation.parquet` and `run.json` of one run below `folder`."""
    target = folder / run.folder
    rounds, models = run.spec["training"]["rounds"], run.spec["protocol"]["models"]
    rows: list[tuple[Any, ...]] = []
    for r in range(rounds + 1):
        for model in models:
            for scope, shift in (("pooled", 0.0), ("mean", -0.001), ("worst", -0.05)):
                for metric in METRICS:
                    value = accuracy_at(run, r) + shift
                    rows.append((r, model, "clean", scope, metric, value if metric == "accuracy" else 1 - value))
        if r:
            rows.append((r, "train", "clean", "mean", "loss", 2.0 / r))
    write_rows(target / "rounds.parquet", ROUNDS_COLUMNS, rows)
    best = rounds - 2
    states = [("last", rounds)] + [(f"best-{model}", best) for model in models]
    tested = [
        (state, r, model, "clean", client, 500, metric, accuracy_at(run, r) if metric == "accuracy" else 0.1)
        for state, r in states
        for model in ("pm", "gm")
        for client in range(-1, CLIENTS)
        for metric in METRICS
    ]
    write_rows(target / "evaluation.parquet", EVALUATION_COLUMNS, tested)
    write_json(
        target / "run.json",
        {
            "run": run.id,
            "spec": run.spec,
            "code": "0123456789ab-engine1",
            "outcome": "finished",
            "dataset": {"name": run.dataset, "sha256": "0" * 64, "samples": 5000},
            "split": {"path": f"data/{run.split_stem}.npz", "sha256": "1" * 64, "md5": "2" * 32},
            "versions": {"python": "3.11", "torch": "2.13.0"},
            "commit": "unknown",
            "hardware": {"processor": "test", "device": "cpu", "threads": 1},
            "lift": "vmap",
            "seconds": 12.5,
            "started": 1_700_000_000.0,
            "round_ended": [1_700_000_000.0 + r for r in range(1, rounds + 1)],
            "floats": {"down": 79510, "up": 79510, "kept": 0},
        },
    )


def write_campaign(folder: Path, plan: Plan) -> None:
    """Write every run of a plan below `folder`."""
    for run in plan.runs.values():
        write_run(folder, run)
