"""Results to MLflow: a view of the files under `results/`, which can be thrown away and published again at any time.

One experiment per paper. Its parent runs are the cells of the paper's tables (experiment, setting, method, preset and
scale), their child runs the seeds; one more run holds the report's tables and figures. Every published run carries a
digest of what it was made from: a run whose files have not changed is left alone, a changed one is made anew. One
process publishes at a time; training jobs never talk to MLflow.

This is the only room that imports mlflow.
"""

import os

# MLflow reports its use to its makers unless told not to; reproducing a paper should not. A user's own choice stands.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from fedbayes.tracking.cells import publish_cells
from fedbayes.tracking.runs import publish_runs
from fedbayes.tracking.store import PaperInfo, open_store

__all__ = ["PaperInfo", "open_store", "publish_cells", "publish_runs"]
