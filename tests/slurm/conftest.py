"""The cluster, one for all tests of this folder, and a project whose data is ready."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkout import snakemake
from cluster import Cluster, only_one, why_not
from disturbed import end_all, make_project, run_of

ROUNDS = 300


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running cluster; where there can be none, its tests are skipped and say why."""
    reason = why_not()
    if reason and os.environ.get("FEDBAYES_REQUIRE_SLURM"):
        pytest.fail(f"FEDBAYES_REQUIRE_SLURM is set, but a SLURM cluster {reason}")
    if reason:
        pytest.skip(f"a SLURM cluster {reason}")
    with only_one(patience=600) as free:
        if not free:
            pytest.fail("another test session has had a cluster on this machine for ten minutes; run one at a time")
        # Not in pytest's own folder, which any other session that starts closes to all but its user: the database's own
        # user must reach its files.
        with tempfile.TemporaryDirectory(prefix="fedbayes-cluster-", ignore_cleanup_errors=True) as folder:
            yield from _running(Path(folder))


def _running(folder: Path) -> Iterator[Cluster]:
    folder.chmod(0o755)
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(autouse=True)
def whole_again(cluster: Cluster) -> Iterator[None]:
    """After each test no Snakemake and no job is left and every node is up."""
    yield
    end_all()
    cluster.restore()


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the run of seed 0 was trained on this machine, undisturbed."""
    folder = make_project(tmp_path_factory.mktemp("calm"), ROUNDS)
    snakemake(folder, "--cores", "1", "--", f"{run_of(folder).folder}/evaluation.parquet")
    return folder
