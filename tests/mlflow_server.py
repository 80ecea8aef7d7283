"""A real `mlflow server` on this machine, to be started, paused and stopped; and what a store holds."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MlflowServer:
    """A tracking server whose database and artifacts are in `home`; it is not up until `start`."""

    def __init__(self, home: Path) -> None:
        self.home, self.port = home, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(self.port), "--workers", "1"]
        with (self.home / "server.log").open("ab") as log:
            # A session of its own, so that signals reach the workers as well.
            self.process = subprocess.Popen(command, cwd=self.home, stdout=log, stderr=log, start_new_session=True)
        for _ in range(240):
            try:
                urllib.request.urlopen(self.uri + "/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.5)
        raise TimeoutError((self.home / "server.log").read_text())

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def stop(self) -> None:
        if self.process is not None:
            self.send(signal.SIGKILL)
            self.process.wait(30)


def held(database: Path, experiment: str) -> dict[str, Any]:
    """All complete and incomplete runs of an experiment by name, without the ids MLflow draws at random.

    Read from the database itself: a client would ask once for every metric. Artifacts are looked for beside it.
    """
    runs: dict[str, Any] = {}
    with sqlite3.connect(database) as base:
        found = base.execute(
            "select run_uuid, runs.name, status, start_time, end_time from runs join experiments using (experiment_id) "
            "where experiments.name = ? and runs.lifecycle_stage = 'active'",
            [experiment],
        ).fetchall()
        names = {row[0]: row[1] for row in found}
        for run, name, *times in found:
            tags = dict(base.execute("select key, value from tags where run_uuid = ?", [run]).fetchall())
            if "mlflow.parentRunId" in tags:
                tags["mlflow.parentRunId"] = names[tags["mlflow.parentRunId"]]
            metrics = base.execute("select key, step, timestamp, value from metrics where run_uuid = ?", [run])
            params = base.execute("select key, value from params where run_uuid = ?", [run])
            data = base.execute("select count(*) from inputs where destination_id = ?", [run]).fetchone()
            files = sorted(file.name for file in database.parent.glob(f"ml*/*/{run}/artifacts/**/*.*"))
            assert name not in runs, f"two runs of one name: {name}"
            runs[name] = [times, tags, sorted(metrics.fetchall()), dict(params.fetchall()), data, files]
    return runs
