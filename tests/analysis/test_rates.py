"""Rates from finished runs: sums, the memory Snakemake noted, and what is left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from artefacts import ROOT, make_plan, write_run
from fedbayes.analysis.rates import finished, frozen, pooled, refresh
from fedbayes.costs import Measured, Rates, passes, size_of, write_rows
from fedbayes.io import read_json, write_json, write_state
from fedbayes.reading import ConfigError


def test_a_finished_run_tells_its_seconds_memory_and_files(tmp_path: Path) -> None:
    plan = make_plan()
    run = next(iter(plan.runs.values()))
    write_run(tmp_path, run)
    benchmark = tmp_path / "benchmarks/train" / run.dataset / run.method / f"{run.id}.tsv"
    benchmark.parent.mkdir(parents=True)
    benchmark.write_text("s\tmax_rss\n14.0\t612.5\n")
    tensors = {"last/server/w": torch.ones(250), "best-gm/server/w": torch.zeros(250), "last/clients/w": torch.ones(99)}
    write_state(tmp_path / run.folder / "state.safetensors", tensors)
    ((name, row),) = finished(plan, tmp_path)
    files = sum(file.stat().st_size for file in (tmp_path / run.folder).iterdir())
    assert (name, row.method, row.network, row.dataset) == (
        run.id,
        run.method,
        run.spec["network"]["name"],
        run.dataset,
    )
    assert (row.seconds, row.memory_mb, row.memory_clients, row.runs) == (12.5, 612.5, 10, 1)
    assert row.passes == pytest.approx(passes(plan, run) / 1000)
    assert row.server_mb == pytest.approx(2000 / 1e6) and row.disk_mb == pytest.approx((files - 2000) / 1e6 / 10)


def test_files_of_the_server_do_not_grow_with_the_clients() -> None:
    plan = make_plan()
    run = next(run for run in plan.runs.values() if run.method == "fedavg")
    row = Measured("fedavg", "mlp", run.dataset, 1, 1.0, 1.0, 500.0, 2.0, "by hand", 7.0, 10)
    assert Rates([row]).cost(plan, run).disk_mb == 7 + 2 * size_of(plan, run).clients


def test_a_run_that_diverged_tells_nothing(tmp_path: Path) -> None:
    plan = make_plan()
    run = next(iter(plan.runs.values()))
    write_run(tmp_path, run)
    record = tmp_path / run.folder / "run.json"
    write_json(record, read_json(record) | {"outcome": "diverged"})
    assert list(finished(plan, tmp_path)) == []


def test_rows_are_added_up_and_peaks_kept() -> None:
    one = Measured("fedavg", "mlp", "mnist", 1, 10.0, 2.0, 400.0, 1.0, "finished runs", 5.0, 10)
    two = Measured("fedavg", "mlp", "mnist", 2, 30.0, 4.0, 0.0, 3.0, "frozen hours", 0.0, 0)
    assert pooled([one, two]) == [
        Measured("fedavg", "mlp", "mnist", 3, 40.0, 6.0, 400.0, 3.0, "finished runs + frozen hours", 5.0, 10)
    ]


def test_hours_of_a_frozen_cell_are_shared_among_its_seeds(tmp_path: Path) -> None:
    plan = make_plan(scale="paper")
    first, second, other = list(plan.runs)[:3]
    (tmp_path / "docs/reproduction").mkdir(parents=True)
    lines = ["runs,hours,diverged", *[f"{first} {second},2,"] * 2, f"{other},1,1 of 1", "ffffffffffff,1,"]
    (tmp_path / "docs/reproduction/pfedbayes.csv").write_text("\n".join(lines) + "\n")
    found = dict(frozen(plan, tmp_path))
    assert {name: row.seconds for name, row in found.items()} == {first: 3600.0, second: 3600.0}


def test_refreshing_keeps_what_was_not_measured_anew(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "src").symlink_to(ROOT / "src")
    kept = Measured("fedavg", "mlp", "nowhere", 1, 10.0, 2.0, 400.0, 1.0, "finished runs", 0.5, 10)
    write_rows(tmp_path / "config/rates.csv", [kept])
    with pytest.raises(ConfigError, match="no finished run"):
        refresh(tmp_path, tmp_path)
    run = next(iter(make_plan().runs.values()))
    write_run(tmp_path, run)
    assert refresh(tmp_path, tmp_path) == 1
    rows = Rates.read(tmp_path).rows
    assert kept in rows and {row.dataset for row in rows} == {"nowhere", run.dataset}
