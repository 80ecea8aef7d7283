"""Finished runs as MLflow runs: seeds as children, the cells they fill as their parents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedbayes.tracking.seed import Seed
from fedbayes.tracking.store import CELL, NOTE, RUN, Entry, PaperInfo, Shelf, digest_of, stands


def publish_runs(uri: str, root: Path, paper: PaperInfo, cells: Sequence[Mapping[str, Any]]) -> None:
    """Bring the seeds of a paper's cells into the store; what is there unchanged stays as it is.

    Args:
        uri: the store, as `MLFLOW_TRACKING_URI` has it; `open_store` must have seen it.
        root: the folder that the cells' `folder` starts from.
        paper: the paper all cells belong to.
        cells: rows of the plan (`Cell.row`), any number of seeds of any cells, all of them finished.
    """
    shelf = Shelf(uri, paper)
    families: dict[str, dict[str, Seed]] = {}
    for cell in cells:
        seed = Seed(cell, root / cell["folder"])
        # A run that stands beside several printed numbers of one setting is published once.
        families.setdefault(seed.cell_id, {}).setdefault(seed.name, seed)
    for cell_id, seeds in families.items():
        _publish_family(shelf, cell_id, list(seeds.values()))


def _publish_family(shelf: Shelf, cell_id: str, seeds: Sequence[Seed]) -> None:
    """One cell and its seeds, together with the seeds published before."""
    known = {run.data.tags.get(RUN, CELL): run for run in shelf.runs(CELL, cell_id)}
    old_parent = known.pop(CELL, None)
    changed = [seed for seed in seeds if not stands(known.get(seed.name), seed.digest)]
    kept = [run for name, run in known.items() if name not in {seed.name for seed in changed}]
    start = min([seed.start for seed in seeds] + [run.info.start_time for run in kept])
    end = max([seed.end for seed in seeds] + [run.info.end_time or 0 for run in kept])
    entry = _parent(seeds[0], start, end)
    if old_parent is None or not stands(old_parent, entry.digest):
        parent = shelf.put(entry, old_parent)
    else:
        parent = old_parent.info.run_id
        if old_parent.info.end_time != end:
            shelf.client.set_terminated(parent, entry.status, end)
    shelf.adopt(parent, kept)
    for seed in changed:
        shelf.put(seed.entry(parent), known.get(seed.name))


def _parent(seed: Seed, start: int, end: int) -> Entry:
    """The run of a cell, described by any of its seeds. Its start is in the digest: MLflow cannot move it."""
    cell, params = seed.cell, {name: value for name, value in seed.params.items() if name != "seed"}
    tags = seed.cell_tags | {NOTE: f"{seed.description}\n\nIts child runs are the seeds."}
    name = f"{cell['setting']} / {cell['method']} ({cell['preset']}) / {cell['experiment']} @ {cell['scale']}"
    return Entry(name, digest_of(json.dumps([name, tags, params, start], sort_keys=True), []), tags, params, start, end)
