"""Measure the engine against the plain loop, print a table, write JSON: `python -m fedbayes.benchmark --jobs a,b`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from fedbayes.benchmark.measure import measure, sgemm_peak, start_up
from fedbayes.benchmark.settings import JOBS
from fedbayes.federation.memory import keep_freed_memory
from fedbayes.io import write_json
from fedbayes.runs.provenance import hardware, versions

HEAD = ("job", "", "ours/s", "plain/s", "ratio", "spread", "of peak", "s/round", "MiB")
FORM = "{:4}{:36}{:>9}{:>9}{:>7}{:>12}{:>9}{:>9}{:>7}"


def main(arguments: list[str] | None = None) -> None:
    """Run the jobs asked for."""
    parser = argparse.ArgumentParser(prog="python -m fedbayes.benchmark", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=Path("results/benchmark.json"), help="where to write")
    parser.add_argument("--jobs", default=",".join(JOBS), help="some of %(default)s")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args(arguments)
    names = asked.jobs.split(",")
    if unknown := set(names) - set(JOBS):
        parser.error(f"--jobs: found {', '.join(sorted(unknown))}, expected some of {', '.join(JOBS)}")
    torch.set_num_threads(1)
    keep_freed_memory()
    write_json(asked.file, run(names, asked.repeats))


def run(names: list[str], repeats: int) -> dict[str, Any]:
    """Measure and print; returns everything measured."""
    peak = sgemm_peak()
    print(FORM.format(*HEAD))
    found = []
    for name in names:
        for setting in JOBS[name]:
            result = {"job": name} | measure(setting, repeats)
            result["share_of_peak"] = result["flops"] / result["client_steps"] * result["ours_per_second"] / peak
            print(line(result), flush=True)
            found.append(result)
    begun = start_up()
    print(f"start-up of a training job {begun['seconds']:.1f} s, sgemm peak {peak / 1e9:.0f} GFLOP/s")
    machine = hardware(torch.device("cpu"))
    return {"machine": machine, "versions": versions(), "sgemm_flops": peak, "start_up": begun, "jobs": found}


def line(result: dict[str, Any]) -> str:
    """One row of the table; speeds are client-steps a second."""
    ratio = result["ratio"]
    return FORM.format(
        result["job"],
        result["title"],
        f"{result['ours_per_second']:,.0f}",
        f"{result['plain_per_second']:,.0f}",
        f"{ratio['median']:.2f}",
        f"{ratio['min']:.2f}-{ratio['max']:.2f}",
        f"{result['share_of_peak']:.0%}",
        f"{result['seconds_per_round']:.3f}",
        f"{result['peak_mib']:,.0f}",
    )


if __name__ == "__main__":
    main()
