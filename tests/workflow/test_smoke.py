"""The whole reproduction at scale smoke, as a user runs it; then what re-runs after an edit, and what does not."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from checkout import copy_project, planned, snakemake

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which everything has been run."""
    folder = copy_project(tmp_path_factory.mktemp("smoke"))
    done = snakemake(folder, "--cores", "2")
    (folder / "terminal.txt").write_text(done.stdout + done.stderr)
    return folder


def edited(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) >= 1, f"{old!r} is not in {file}"
    file.write_text(text.replace(old, new, 1))


def published(folder: Path) -> int:
    with sqlite3.connect(folder / "mlflow.db") as database:
        return int(database.execute("select count(*) from runs where lifecycle_stage = 'active'").fetchone()[0])


def test_a_person_sees_runs_rounds_time_left_and_the_result(finished: Path) -> None:
    said = (finished / "terminal.txt").read_text()
    assert "round 10/10" in said and " left" in said
    assert "Report: results/smoke/report/index.html" in said and "87.38" in said and "smoke" in said


def test_every_result_is_there_and_says_what_it_is(finished: Path) -> None:
    frame = pd.read_csv(finished / "results/smoke/reproduction/pfedbayes.csv")
    ran = frame[frame["status"] == "run"]
    assert {"FedAvg", "pFedBayes"} <= set(ran["method"]) and len(frame) > 150
    assert set(ran.loc[ran["method"] == "pFedBayes", "preset"]) == {"paper", "reference"}
    row = ran[ran["method"] == "FedAvg"].iloc[0]
    assert (row["scale"], row["ran_on"], row["stand_in_for"], row["seeds"], row["preset"]) == (
        "smoke", "MNIST-5k", "MNIST", 1, "paper"
    )  # fmt: skip
    assert 0.3 < row["ours"] < 0.95 and row["published"] == pytest.approx(0.8738) and pd.isna(row["verdict"])
    pictures = ("figures/pfedbayes/figure2.svg", "splits/pfedbayes/mnist-small.svg", "splits/pfedbayes/mnist-small.png")
    for name in ("report/index.html", "tables/pfedbayes/table1.tex", *pictures):
        assert (finished / "results/smoke" / name).stat().st_size > 0
    benchmark = next((finished / "benchmarks/train").rglob("*.tsv"))
    assert float(pd.read_csv(benchmark, sep="\t")["s"].iloc[0]) > 0


def test_running_again_does_nothing(finished: Path) -> None:
    assert planned(finished) == {}


def test_snakemakes_own_report_is_made(finished: Path) -> None:
    snakemake(finished, "--report", "report.zip")
    assert (finished / "report.zip").stat().st_size > 10_000


def test_a_hyper_parameter_retrains_that_run_alone(finished: Path) -> None:
    jobs = planned(finished, "--config", "seeds=[0]")
    assert jobs == {}
    file = finished / "config/papers/pfedbayes.yaml"
    before = file.read_text()
    edited(file, "set: {lr: 0.01}", "set: {lr: 0.02}")
    changed = planned(finished)
    file.write_text(before)
    assert (changed["train"], changed["evaluate"], changed["track"]) == (1, 1, 1) and "partition" not in changed
    assert planned(finished) == {}


def test_editing_the_method_retrains_and_a_comment_does_not(finished: Path) -> None:
    file = finished / "src/fedbayes/methods/fedprox.py"
    before = file.read_text()
    edited(file, "Idea: ", "Idea: here ")
    assert planned(finished) == {}
    edited(file, "work.meter.add(loss)", "work.meter.add(1 * loss)")
    assert planned(finished)["train"] == 2, "a row of Table 1 and one of Table 3"
    file.write_text(before)
    assert planned(finished) == {}


def test_editing_a_plot_draws_that_plot_and_retrains_nothing(finished: Path) -> None:
    file = finished / "src/fedbayes/analysis/figures/lines.py"
    before = file.read_text()
    file.write_text(before + "\nEDITED = True\n")
    jobs = planned(finished)
    file.write_text(before)
    kept = {"train", "evaluate", "summarize", "compare", "tables", "split_pictures"}
    assert jobs["figures"] >= 1 and not kept & set(jobs)


def test_a_touched_script_retrains_nothing(finished: Path) -> None:
    (finished / "workflow/scripts/train.py").touch()
    assert planned(finished) == {}


def test_deleting_the_store_and_running_again_restores_it(finished: Path) -> None:
    before = published(finished)
    assert before >= 3
    (finished / "mlflow.db").unlink()
    jobs = planned(finished)
    assert "train" not in jobs and jobs["track"] == 1
    snakemake(finished, "--cores", "2")
    assert published(finished) == before
    assert planned(finished) == {}
    snakemake(finished, "--cores", "2", "--forcerun", "track", "track_means")
    assert published(finished) == before
