"""States as people read them: a table by paper, then every run that wants to be looked at, with what to type."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from fedbayes.costs import aligned
from fedbayes.plan import Cell, Plan
from fedbayes.status.jobs import JobState
from fedbayes.status.other_jobs import OtherJob
from fedbayes.status.runs import STATES

WIDTH = 118
# In these states a Snakemake sees to a job: there is nothing to type.
AT_WORK = ("running", "queued")
# Shown one by one, in this order, with what each heading says of them.
LISTED = {
    "running": "at work now",
    "queued": "SLURM starts them again by itself",
    "unknown": "neither this machine nor a queue can tell whether they are at work",
    "failed": "ended with an error",
    "stopped": "cut off, nobody is at work on them",
}
LISTED_IF_ASKED = {"outdated": "trained by other code, will be trained again", "missing": "never started"}
# Columns of the table that are left out where there are no such runs.
RARE = ("outdated", "queued", "unknown")
NOTE = (
    "A paper's line has all its runs, the total has those that papers share once. trained: the evaluation is missing; "
    "missing: never started, or waiting for its turn."
)
BUSY = (
    "A Snakemake is at work: this command and those above are for when it has ended. Wait for it, or stop it with "
    "Ctrl-C where it runs (its jobs keep their last completed rounds)."
)


def status_text(
    plan: Plan,
    runs: Mapping[str, JobState],
    others: Sequence[OtherJob],
    choices: Sequence[str],
    list_missing: bool = False,
    campaign: bool = False,
) -> str:
    """Everything `make status` prints.

    Args:
        plan: what is asked for.
        runs: the state of each of its runs by name.
        others: jobs of other rules that failed, were stopped or are at work.
        choices: what to add to `snakemake` so that it has the same plan.
        list_missing: whether outdated and missing runs are shown one by one, too.
        campaign: whether a Snakemake is known to be alive, even if none of its jobs has begun.
    """
    states = Counter(job.state for job in runs.values())
    note = f"{NOTE} outdated: {LISTED_IF_ASKED['outdated']}." if states["outdated"] else NOTE
    blocks = [[f"Runs at scale {plan.config.scale}:", *_table(plan, runs), *textwrap.wrap(note, WIDTH)]]
    if others:
        blocks.append(["Other jobs", *(line for other in others for line in _other(other))])
    cells = _cells_by_run(plan)
    for state, about in (LISTED | (LISTED_IF_ASKED if list_missing else {})).items():
        names = [name for name, job in runs.items() if job.state == state]
        if names:
            lines = (line for name in names for line in _run(cells[name], runs[name], choices))
            blocks.append([f"{state.capitalize()}: {about}", *lines])
    if states["done"] < len(runs):
        at_slurm = any(job.slurm for job in runs.values())
        busy = campaign or any(job.state in AT_WORK for job in (*runs.values(), *(other.job for other in others)))
        heading = ["All that is not done:", *(textwrap.wrap(BUSY, WIDTH) if busy else [])]
        blocks.append([*heading, f"  {command((), choices, at_slurm)}"])
    return "\n\n".join("\n".join(block) for block in blocks)


def _table(plan: Plan, runs: Mapping[str, JobState]) -> Iterator[str]:
    """Counts of states, a line a paper; a column for what is rare only where there is any."""
    total = Counter(job.state for job in runs.values())
    columns = [state for state in STATES if state not in RARE or total[state]]
    groups: dict[str, Collection[str]] = {p: [run.id for run in plan.runs_of(p)] for p in plan.papers}
    rows = [("paper", "runs", *columns)]
    for title, names in (groups | {"total": list(runs)}).items():
        counts = Counter(runs[name].state for name in names)
        rows.append((title, *(f"{number:,}" for number in (len(names), *(counts[state] for state in columns)))))
    return aligned(rows)


def _cells_by_run(plan: Plan) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        found.setdefault(cell.run.id, []).append(cell)
    return found


def _run(cells: Sequence[Cell], job: JobState, choices: Sequence[str]) -> Iterator[str]:
    """A run with one of its places in the papers, what there is to say of it, and how to have it tried again."""
    cell, run = cells[0], cells[0].run
    place = f"{cell.paper} {cell.experiment}, {cell.setting}, {cell.method}, preset {cell.preset}"
    more = f" (and {len(cells) - 1} more)" if len(cells) > 1 else ""
    yield from _wrapped(f"{run.id}  {run.method} on {run.dataset}, seed {cell.seed}: {place}{more}", 2, 16)
    if job.reason:
        yield from _wrapped(f"{job.rule}: {job.reason}")
    facts = [job.where, f"{job.attempts} attempts" if job.attempts > 1 else "", f"log {job.log}" if job.log else ""]
    if any(facts):
        yield from _wrapped("; ".join(filter(None, facts)))
    if job.state not in (*AT_WORK, "unknown"):
        yield f"      {command([f'{run.folder}/evaluation.parquet'], choices, job.slurm)}"


def _other(other: OtherJob) -> Iterator[str]:
    job = other.job
    waiting = f", {other.waiting:,} missing runs wait for it" if other.waiting else ""
    yield f"  {job.state}  {job.rule}, log {job.log}{waiting}"
    yield from _wrapped(job.reason)


def _wrapped(text: str, first: int = 6, others: int = 8) -> Iterator[str]:
    """Text in lines that are set in by so many columns; paths stay whole, because they are there to be copied."""
    wrapper = textwrap.TextWrapper(WIDTH, " " * first, " " * others, break_long_words=False, break_on_hyphens=False)
    yield from wrapper.wrap(text)


def command(targets: Iterable[str], choices: Sequence[str], slurm: bool) -> str:
    """What to type to have some files made (none: everything), where the last attempt was made."""
    where = ["--profile", "slurm"] if slurm else ["--cores", "all"]
    targets = list(targets)
    # An end of options: the list of --config would take a target for one of its own.
    return shlex.join(["snakemake", *where, *choices, *(["--", *targets] if targets else [])])
