"""Which MLflow store results are published to; light enough to be asked while planning."""

from __future__ import annotations

import hashlib
import os

LOCAL = "sqlite:///mlflow.db"


def tracking_uri() -> str:
    """The user's `MLFLOW_TRACKING_URI`, else the file `mlflow.db` that `mlflow ui` opens by itself."""
    return os.environ.get("MLFLOW_TRACKING_URI") or LOCAL


def store_name(uri: str) -> str:
    """A folder name for the receipts of a store: `local`, or a digest of its address."""
    return "local" if uri == LOCAL else "server-" + hashlib.sha256(uri.encode()).hexdigest()[:12]
