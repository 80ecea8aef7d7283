"""From configuration to the list of runs: everything is decided, named and checked here, before any job starts.

A *run* is one training job; its name is the digest of everything that changes its numbers, and of nothing else. A
*cell* is one place of a paper's table (experiment, setting, method, preset, seed) at a scale; several cells may share a
run. Planning reads YAML and the generated schema only: no torch, no data, no network.

`load` is the way in, `layout` goes through a paper's tables, `specification` resolves one cell, and `plan` answers
what the workflow asks of all of them.
"""

from __future__ import annotations

from fedbayes.plan.cell import Cell
from fedbayes.plan.known import read_committed_splits
from fedbayes.plan.load import load_plan
from fedbayes.plan.paper_tables import own_table, slug
from fedbayes.plan.plan import Plan
from fedbayes.plan.run import Run, digest
from fedbayes.plan.scales import reduction
from fedbayes.plan.split_pictures import SplitPicture
from fedbayes.reading import ConfigError

__all__ = [
    "Cell",
    "ConfigError",
    "Plan",
    "Run",
    "SplitPicture",
    "digest",
    "load_plan",
    "own_table",
    "read_committed_splits",
    "reduction",
    "slug",
]
