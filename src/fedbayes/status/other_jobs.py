"""Jobs beside training and evaluation that failed or are at work: one failed download may hold up many runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedbayes.plan import Plan, Run
from fedbayes.status.jobs import Jobs, JobState

OF_RUNS = ("train", "evaluate")
OF_DATA = ("fetch", "partition", "corrupt")


@dataclass(frozen=True)
class OtherJob:
    """A job of another rule, and how many missing runs wait for what it makes."""

    job: JobState
    waiting: int


def other_jobs(plan: Plan, jobs: Jobs, runs: Mapping[str, JobState]) -> list[OtherJob]:
    """Jobs of the plan that failed, were stopped or are at work, those that most runs wait for first."""
    needed = {name: set(data_logs(plan, run)) for name, run in plan.runs.items()}
    waiting = Counter(log for name, logs in needed.items() if runs[name].state == "missing" for log in logs)
    of_plan = set().union(*needed.values())
    logs = [
        (rule, log)
        for rule, log in _logs(jobs.directory)
        if (log in of_plan if rule in OF_DATA else _of_scale(log, plan.config.scale))
    ]
    found = [OtherJob(state, waiting[state.log]) for state in jobs.states(logs) if state.state != "missing"]
    return sorted(found, key=lambda other: (-other.waiting, other.job.log))


def data_logs(plan: Plan, run: Run) -> Iterator[str]:
    """Logs of the jobs that make a run's data, as the rules declare them."""
    yield f"logs/fetch/{run.dataset}.log"
    if run.id in plan.outsiders:
        yield f"logs/fetch/{plan.outsiders[run.id]}.log"
    yield f"logs/partition/{plan.split_file(run).removesuffix('.npz')}.log"
    if run.shift_file:
        yield f"logs/corrupt/{run.shift_file.removeprefix('results/shifts/').removesuffix('.npz')}.log"


def _logs(directory: Path) -> Iterator[tuple[str, str]]:
    """Rule and log of every job that is not one of a run's own."""
    top = directory / "logs"
    for entry in sorted(top.iterdir()) if top.is_dir() else ():
        if entry.stem not in OF_RUNS:
            files = sorted(entry.rglob("*.log")) if entry.is_dir() else [entry]
            yield from ((entry.stem, str(file.relative_to(directory))) for file in files)


def _of_scale(log: str, scale: str) -> bool:
    """Whether a log of the rules after training is one of a scale, or (`logs/store.log`) of none."""
    parts = Path(log).with_suffix("").parts
    return len(parts) == 2 or parts[2] == scale
