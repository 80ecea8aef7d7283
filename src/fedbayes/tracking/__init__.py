"""Results to MLflow: a view of the files under `results/`, which can be thrown away and published again at any time.

One experiment per paper. Its parent runs are the cells of the paper's tables (experiment, setting, method, preset and
scale), their child runs the seeds; one more run holds the report's tables and figures. Every published run carries a
digest of what it was made from: a run whose files have not changed is left alone, a changed one is made anew. One
process of a folder publishes at a time; training jobs never talk to MLflow. A store that cannot be reached is an
`UnreachableError`, within about a minute.

This is the only room that imports mlflow.
"""

import os

# MLflow reports its use to its makers unless told not to; reproducing a paper should not. A user's own choice stands.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
# MLflow would wait for a silent server for a quarter of an hour, while others wait for us.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

from fedbayes.tracking.cells import publish_cells
from fedbayes.tracking.runs import publish_runs
from fedbayes.tracking.store import PaperInfo, open_store

__all__ = ["PaperInfo", "open_store", "publish_cells", "publish_runs"]
