"""Brings `config/rates.csv` up to date from finished runs: `python -m fedbayes.analysis.rates [folder]` (`make rates`).

`folder` holds `results/` and `benchmarks/`. A finished run tells its seconds, its files their sizes, Snakemake's
benchmark the memory. Runs that are only frozen in `docs/reproduction/` tell their hours. Rows of what was not measured
anew stay.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from fedbayes.costs import RATES, Measured, Rates, passes, size_of, write_rows
from fedbayes.io import read_json, stored_bytes
from fedbayes.plan import Plan, Run, load_plan
from fedbayes.reading import complain, read_yaml

FROZEN, FINISHED = "frozen hours", "finished runs"


def finished(plan: Plan, folder: Path) -> Iterator[tuple[str, Measured]]:
    """What the runs of a plan that lie finished below `folder` tell, by name."""
    for run in plan.runs.values():
        record = folder / run.folder / "run.json"
        if not record.exists():
            continue
        found = read_json(record)
        # A run that diverged stopped early: its seconds are not those of its rounds.
        if found["outcome"] != "finished":
            continue
        bytes_ = sum(file.stat().st_size for file in record.parent.iterdir() if file.is_file())
        benchmark = folder / "benchmarks/train" / run.dataset / run.method / f"{run.id}.tsv"
        state = record.with_name("state.safetensors")
        tensors = stored_bytes(state) if state.exists() else {}
        server = sum(size for name, size in tensors.items() if name.split("/")[1] == "server")
        row, memory = _row(plan, run, found["seconds"], FINISHED), _most_memory(benchmark)
        clients = size_of(plan, run).clients
        yield (
            run.id,
            replace(
                row,
                memory_mb=memory,
                memory_clients=clients if memory else 0,
                disk_mb=(bytes_ - server) / 1e6 / clients,
                server_mb=server / 1e6,
            ),
        )


def frozen(plan: Plan, root: Path) -> Iterator[tuple[str, Measured]]:
    """What the frozen cells of a plan's scale tell, by name of the run; hours are those of all seeds of a cell."""
    for file in sorted(root.glob("docs/reproduction/*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                runs = row["runs"].split()
                known = [plan.runs[run] for run in runs if run in plan.runs]
                if row["diverged"] or len(known) < len(runs) or not row["hours"]:
                    continue
                for run in known:
                    yield run.id, _row(plan, run, 3600 * float(row["hours"]) / len(runs), FROZEN)


def _row(plan: Plan, run: Run, seconds: float, source: str) -> Measured:
    network, thousands = run.spec["network"]["name"], passes(plan, run) / 1000
    return Measured(run.method, network, run.dataset, 1, thousands, seconds, 0.0, 0.0, source, 0.0, 0)


def _most_memory(benchmark: Path) -> float:
    """Peak resident megabytes Snakemake noted; 0 where it was too quick to look or there is no file."""
    if not benchmark.exists():
        return 0.0
    with benchmark.open(encoding="utf-8", newline="") as lines:
        found = [row["max_rss"] for row in csv.DictReader(lines, delimiter="\t")]
    return max((float(value) for value in found if value not in ("-", "NA")), default=0.0)


def pooled(rows: Iterable[Measured]) -> list[Measured]:
    """One row for each method, network and dataset: times added up, memory and disk the most of any run."""
    table: dict[tuple[str, str, str], Measured] = {}
    for row in rows:
        key = (row.method, row.network, row.dataset)
        table[key] = _added(table[key], row) if key in table else row
    return [_rounded(row) for row in table.values()]


def _added(one: Measured, other: Measured) -> Measured:
    return replace(
        one,
        runs=one.runs + other.runs,
        passes=one.passes + other.passes,
        seconds=one.seconds + other.seconds,
        memory_mb=max(one.memory_mb, other.memory_mb),
        memory_clients=max(one, other, key=lambda row: row.memory_mb).memory_clients,
        disk_mb=max(one.disk_mb, other.disk_mb),
        server_mb=max(one.server_mb, other.server_mb),
        source=" + ".join(sorted({*one.source.split(" + "), *other.source.split(" + ")})),
    )


def _rounded(row: Measured) -> Measured:
    return replace(
        row,
        passes=round(row.passes, 1),
        seconds=round(row.seconds, 2),
        memory_mb=round(row.memory_mb),
        disk_mb=round(row.disk_mb, 4),
        server_mb=round(row.server_mb, 4),
    )


def refresh(root: Path, folder: Path) -> int:
    """Measure everything there is at every scale, write the table anew; returns how many rows were measured."""
    config = read_yaml(root / "config/config.yaml", "config/config.yaml")
    # By name: a run may be in several scales and cells, and both finished here and frozen; files tell more than hours.
    by_hours: dict[str, Measured] = {}
    by_files: dict[str, Measured] = {}
    for scale in ("smoke", "reduced", "paper"):
        plan = load_plan(config | {"scale": scale}, root)
        by_hours |= frozen(plan, root)
        by_files |= finished(plan, folder)
    fresh = pooled((by_hours | by_files).values())
    if not fresh:
        raise complain(str(folder), "results/runs", "no finished run of the plan is there, and none is frozen")
    rows = {f"{r.method}/{r.network}/{r.dataset}": r for r in (*Rates.read(root).rows, *fresh)}
    write_rows(root / RATES, rows.values())
    return len(fresh)


if __name__ == "__main__":
    print(f"{refresh(Path(), Path(sys.argv[1] if len(sys.argv) > 1 else '.'))} rows of {RATES} measured")
