"""The plan's cost as a table: a line for each paper and one for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedbayes.costs.rates import RATES, Cost, Rates
from fedbayes.plan import Plan, Run


@dataclass(frozen=True)
class Line:
    """A line of the summary; costs are of the runs that are left."""

    name: str
    runs: int
    done: int
    hours: float
    memory_mb: float
    disk_mb: float
    guessed: int

    def cells(self) -> tuple[str, ...]:
        """The line as people read it."""
        hours = f"{self.hours:,.1f}" if self.hours < 100 else f"{self.hours:,.0f}"
        memory, disk = f"{self.memory_mb / 1000:.1f} GB", f"{self.disk_mb / 1000:,.1f} GB"
        left = self.runs - self.done
        return (self.name, *(f"{n:,}" for n in (self.runs, self.done, left)), hours, memory, disk, f"{self.guessed:,}")


HEADINGS = ("paper", "runs", "done", "to do", "core-hours left", "memory a job", "disk left", "guessed")


def add_up(name: str, runs: Iterable[Run], costs: Mapping[str, Cost], folder: Path) -> Line:
    """The line of some runs: those whose `evaluation.parquet` is below `folder` are done and cost nothing."""
    runs = list(runs)
    left = [costs[run.id] for run in runs if not (folder / run.folder / "evaluation.parquet").exists()]
    return Line(
        name,
        len(runs),
        len(runs) - len(left),
        sum(cost.seconds for cost in left) / 3600,
        max((cost.memory_mb for cost in left), default=0.0),
        sum(cost.disk_mb for cost in left),
        sum(cost.guessed for cost in left),
    )


def summary(plan: Plan, rates: Rates, folder: Path) -> str:
    """The whole plan's cost as a table: a line a paper and the total.

    Args:
        plan: what is asked for.
        rates: what was measured.
        folder: the working directory, which holds `results/`.
    """
    costs = {run.id: rates.cost(plan, run) for run in plan.runs.values()}
    lines = [add_up(paper, plan.runs_of(paper), costs, folder) for paper in plan.papers]
    total = add_up("total", plan.runs.values(), costs, folder)
    rows = [HEADINGS, *(line.cells() for line in (*lines, total))]
    shared = sum(line.runs for line in lines) - total.runs
    notes = f"Estimates by {RATES}."
    if shared:
        notes += f" A paper's line has all its runs; the total is {shared:,} less, as papers share runs."
    if total.guessed:
        notes += "\nguessed: their method was never measured with their network, or only the data can count clients."
    return "\n".join([f"Plan at scale {plan.config.scale}:", *aligned(rows), notes])


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines of a table: the first column to the left, all others, which are numbers, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])
