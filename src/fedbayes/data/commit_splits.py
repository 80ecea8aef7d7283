"""Every split the committed configuration needs: made, listed and pinned.

`write` (`make commit-splits`) is for after a change of `config/papers/`, of a dataset or of a rule; the diff of
`config/splits.csv` then shows a reviewer which splits changed. `check` (`make splits`) makes the listed splits again
and refuses any that differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import get_args

from fedbayes.config import Scale
from fedbayes.data.regenerate_splits import dvc_add, fetched, regenerate, sweep
from fedbayes.data.splits import COLUMNS, LIST, make_split, split_row
from fedbayes.io import write_text
from fedbayes.plan import Run, load_plan
from fedbayes.reading import ConfigError


def commit(root: Path) -> list[str]:
    """Make the needed splits below `root/data`, write `config/splits.csv` and `data.dvc`, return the paths."""
    needed = needed_splits(root)
    sweep(root, needed)
    rows = []
    for path, run in sorted(needed.items()):
        make_split(fetched(root, run.dataset), run.split, run.spec["seed"], root / path, None)
        rows.append(split_row(path, (root / path).read_bytes()))
    _write_list(root / LIST, rows)
    dvc_add(root)
    return list(needed)


def needed_splits(root: Path) -> dict[str, Run]:
    """Path below `root` of every split that some paper needs at some scale, with a run that needs it.

    Splits of a dataset whose digest is not known, or that nothing downloads, are left out.
    """
    papers = sorted(file.stem for file in (root / "config/papers").glob("*.yaml"))
    plans = [load_plan({"scale": scale, "papers": papers}, root) for scale in get_args(Scale)]
    return {
        f"data/{run.split_stem}.npz": run
        for plan in plans
        for run in plan.runs.values()
        if plan.datasets[run.dataset].pinned
    }


def _write_list(path: Path, rows: list[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def main(arguments: list[str], root: Path) -> str:
    """Do what the command line asks; the line to print at the end."""
    parser = argparse.ArgumentParser(prog="python -m fedbayes.data.commit_splits", description=__doc__)
    parser.add_argument("task", choices=("write", "check"))
    paths = {"write": commit, "check": regenerate}[parser.parse_args(arguments).task](root)
    size = sum((root / path).stat().st_size for path in paths)
    return f"{len(paths)} splits in data/ ({size / 1e6:.1f} MB), as {LIST} lists them and data.dvc pins them"


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:], Path.cwd()))
    except ConfigError as error:
        sys.exit(str(error))
