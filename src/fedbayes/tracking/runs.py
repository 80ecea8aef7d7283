"""Finished runs as MLflow runs: seeds as children, the cells they fill as their parents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedbayes.tracking.reach import reaching
from fedbayes.tracking.seed import Seed
from fedbayes.tracking.store import CELL, NOTE, RUN, Entry, PaperInfo, Shelf, digest_of, settle, stands


def publish_runs(uri: str, publisher: str, root: Path, paper: PaperInfo, cells: Sequence[Mapping[str, Any]]) -> None:
    """Bring the seeds of a paper's cells into the store; what is there unchanged stays as it is.

    Args:
        uri: the store, as `MLFLOW_TRACKING_URI` has it; `open_store` must have seen it.
        publisher: who publishes; one process at a time may do so under one name.
        root: the folder that the cells' `folder` starts from.
        paper: the paper all cells belong to.
        cells: rows of the plan (`Cell.row`), any number of seeds of any cells, all of them finished.
    """
    families: dict[str, dict[str, Seed]] = {}
    for cell in cells:
        seed = Seed(cell, root / cell["folder"])
        # A run that stands beside several printed numbers of one setting is published once.
        families.setdefault(seed.cell_id, {}).setdefault(seed.name, seed)
    with reaching(uri):
        shelf = Shelf(uri, publisher, paper)
        for cell_id, seeds in families.items():
            settle(partial(_publish_family, shelf, cell_id, list(seeds.values())))


def _publish_family(shelf: Shelf, cell_id: str, seeds: Sequence[Seed], first: bool) -> bool:
    """One cell and its seeds, together with the seeds published before; says whether there was anything to do."""
    known = {run.data.tags.get(RUN, CELL): run for run in shelf.runs(CELL, cell_id)}
    old = known.pop(CELL, None)
    changed = [s for s in seeds if s.name not in known or (first and not stands(known[s.name], s.digest))]
    kept = [run for name, run in known.items() if name not in {seed.name for seed in changed}]
    start = min([seed.start for seed in changed] + [run.info.start_time for run in kept])
    end = max([seed.end for seed in changed] + [run.info.end_time or 0 for run in kept])
    entry = _parent(seeds[0], start, end)
    moved = False
    if old is None or old.info.start_time != start or (first and not stands(old, entry.digest)):
        parent, moved = shelf.put(entry, old), True
    else:
        parent = old.info.run_id
        if old.info.end_time != end:
            shelf.client.set_terminated(parent, entry.status, end)
            moved = True
    adopted = shelf.adopt(parent, kept)
    for seed in changed:
        shelf.put(seed.entry(parent), known.get(seed.name))
    return moved or adopted or bool(changed)


def _parent(seed: Seed, start: int, end: int) -> Entry:
    """The run of a cell, described by any of its seeds. Its start is in the digest: MLflow cannot move it."""
    params = {name: value for name, value in seed.params.items() if name != "seed"}
    tags = seed.cell_tags | {NOTE: f"{seed.description}\n\nIts child runs are the seeds."}
    digest = digest_of(json.dumps([seed.cell_name, tags, params, start], sort_keys=True), [])
    return Entry(seed.cell_name, digest, tags, params, start, end)
