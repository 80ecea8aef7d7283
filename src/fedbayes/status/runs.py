"""What became of a run: what is in its folder, and otherwise what the last attempts at its jobs came to."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from fedbayes.plan import Plan, Run
from fedbayes.status.jobs import Jobs, JobState

STATES = ("done", "outdated", "trained", "running", "queued", "failed", "stopped", "unknown", "missing")
# What `train` and `evaluate` leave; a run is done when all of it is there.
TRAINED = frozenset({"state.safetensors", "rounds.parquet", "visits.parquet", "run.json"})
EVALUATED = frozenset({"evaluation.parquet", "predictions.parquet"})
# The rule that a run whose files are such waits for.
NEXT = {"missing": "train", "trained": "evaluate"}


def log_of(rule: str, run: Run) -> str:
    """The log that the rules `train` and `evaluate` declare for a run."""
    return f"logs/{rule}/{run.dataset}/{run.method}/{run.id}.log"


def run_states(plan: Plan, jobs: Jobs) -> dict[str, JobState]:
    """The state of every run by its name.

    Beside the states of jobs there are `done` (trained and evaluated), `outdated` (trained by other code, so Snakemake
    will train again) and `trained` (the evaluation has not begun).
    """
    made = {name: _made(jobs.directory / run.folder, run) for name, run in plan.runs.items()}
    open_ = {name: NEXT[state] for name, state in made.items() if state in NEXT}
    found = jobs.states((rule, log_of(rule, plan.runs[name])) for name, rule in open_.items())
    states = dict(zip(open_, found, strict=True))
    return {
        name: _named(jobs, run, states[name]) if name in states else JobState(made[name], "evaluate")
        for name, run in plan.runs.items()
    }


def _named(jobs: Jobs, run: Run, found: JobState) -> JobState:
    if found.rule == "evaluate":
        return JobState("trained", "evaluate") if found.state == "missing" else found
    at = checkpoint_round(jobs.directory / run.folder)
    going_on = f"goes on from round {at} of {run.spec['training']['rounds']}" if at else "starts anew"
    if found.state == "missing" and at is not None:
        # Logs may be deleted; a checkpoint still tells that there was somebody.
        return JobState("stopped", "train", reason=f"its log is gone; {going_on}")
    if found.state in ("queued", "failed", "stopped"):
        return replace(found, reason=f"{found.reason}; {going_on}")
    return found


def _made(folder: Path, run: Run) -> str:
    """What the files of a run say: `missing`, `outdated`, `trained`, or `done` if it was evaluated since then."""
    try:
        with os.scandir(folder) as entries:
            times = {entry.name: entry.stat().st_mtime for entry in entries if entry.name in TRAINED | EVALUATED}
        if not times.keys() >= TRAINED:
            return "missing"
        code = json.loads((folder / "run.json").read_bytes())["code"]
    except FileNotFoundError:
        return "missing"
    if code != run.code:
        return "outdated"
    evaluated = times.keys() >= EVALUATED and times["evaluation.parquet"] >= times["state.safetensors"]
    return "done" if evaluated else "trained"


def checkpoint_round(folder: Path) -> int | None:
    """The round of the newest checkpoint of a run; None where there is none."""
    rounds = [int(found.name.removeprefix("round-")) for found in (folder / "checkpoint").glob("round-*")]
    return max(rounds, default=None)
