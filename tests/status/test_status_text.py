"""What `make status` prints: counts, who is at work, what failed and why, and what to type."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from artefacts import ROOT, make_plan
from fedbayes import slurm_runs
from fedbayes.plan import Plan
from fedbayes.reading import ConfigError
from fedbayes.status.__main__ import main
from fedbayes.status.other_jobs import data_logs
from fedbayes.status.text import command
from prepared import (
    dead_process,
    ended,
    fake_squeue,
    living_process,
    record,
    started,
    write,
    write_artefacts,
    write_logs,
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan()


def status(folder: Path, *choices: str) -> str:
    return main(["papers=[pfedbayes]", *choices, "--directory", str(folder)], ROOT)


def row(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(f"{name} "))


def after(text: str, word: str) -> list[str]:
    """The lines of the block that a word is in, from there to the next empty line."""
    return text[text.index(word) :].split("\n\n")[0].splitlines()


def test_states_are_counted_and_listed_with_reasons_and_commands(tmp_path: Path, plan: Plan) -> None:
    done, trained, running, failed, stopped, *missing = plan.runs.values()
    write_artefacts(tmp_path, done, evaluated=True)
    write_artefacts(tmp_path, trained, evaluated=False)
    write_logs(tmp_path, "train", running, started(living_process()), record("run x: round 1/10, loss 1.0, 9 s left"))
    write_logs(tmp_path, "train", failed, started(1), record("mnist: the file is damaged", "ERROR"), ended(1, "failed"))
    write_logs(tmp_path, "train", stopped, started(dead_process()))
    text = status(tmp_path)
    assert row(text, "paper") == ["paper", "runs", "done", "trained", "running", "failed", "stopped", "missing"]
    numbers = [str(len(plan.runs)), "1", "1", "1", "1", "1", str(len(missing))]
    assert row(text, "pfedbayes")[1:] == row(text, "total")[1:] == numbers
    assert after(text, running.id)[1].strip().startswith("train: round 1/10, loss 1.0, 9 s left (")
    title, reason, log, retry = after(text, failed.id)
    cell = next(cell for cell in plan.cells if cell.run is failed)
    assert all(
        word in title for word in (failed.method, failed.dataset, f"seed {cell.seed}", cell.setting, cell.preset)
    )
    assert reason.strip() == "train: mnist: the file is damaged; starts anew"
    assert f"logs/train/{failed.dataset}/{failed.method}/{failed.id}.log" in log
    target = f"{failed.folder}/evaluation.parquet"
    choices = f"--directory {tmp_path} --config 'papers=[pfedbayes]'"
    assert retry.strip() == f"snakemake --cores all {choices} -- {target}"
    assert f"{stopped.folder}/evaluation.parquet" in after(text, stopped.id)[-1]
    assert not any(run.id in text for run in (done, trained, *missing))
    end = after(text, "All that is not done:")
    assert "Wait for it, or stop it" in " ".join(end) and end[-1] == f"  snakemake --cores all {choices}"


def test_missing_runs_are_listed_when_asked_for(tmp_path: Path, plan: Plan) -> None:
    assert all(name in status(tmp_path, "--missing") for name in plan.runs)


def test_when_all_is_done_there_is_nothing_to_type(tmp_path: Path, plan: Plan) -> None:
    for run in plan.runs.values():
        write_artefacts(tmp_path, run, evaluated=True)
    text = status(tmp_path)
    assert row(text, "total")[1:3] == [str(len(plan.runs))] * 2 and "snakemake" not in text


def test_nobody_is_waited_for_where_no_run_is_at_work(tmp_path: Path) -> None:
    heading, command_ = after(status(tmp_path), "All that is not done:")
    assert heading == "All that is not done:" and command_.startswith("  snakemake")


def test_a_queued_run_needs_no_command_and_somebody_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    run = next(iter(plan.runs.values()))
    fake_squeue(tmp_path, monkeypatch, "echo '77 PENDING'")
    write_logs(tmp_path, "train", run, started(1, slurm="77", host="n1"), ended(1, "stopped", host="n1"))
    text = status(tmp_path)
    assert "queued" in row(text, "paper") and row(text, "total")[row(text, "paper").index("stopped")] == "0"
    assert after(text, "Queued:")[0] == "Queued: SLURM starts them again by itself"
    assert not any("snakemake" in line for line in after(text, "Queued:"))
    assert "A Snakemake is at work" in text and "--profile slurm" in after(text, "All that is not done:")[-1]


def test_a_snakemake_none_of_whose_jobs_has_begun_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = slurm_runs.begin("name")
    monkeypatch.chdir(ROOT)
    assert "A Snakemake is at work" in status(tmp_path)
    file.close()
    assert "A Snakemake is at work" not in status(tmp_path)


def test_a_download_under_way_is_waited_for(tmp_path: Path, plan: Plan) -> None:
    write(tmp_path / next(data_logs(plan, next(iter(plan.runs.values())))), started(living_process()))
    assert "A Snakemake is at work" in status(tmp_path)


def test_outdated_runs_are_counted_and_explained(tmp_path: Path, plan: Plan) -> None:
    first, second, *_ = plan.runs.values()
    write_artefacts(tmp_path, first, evaluated=True, code="0123456789ab-engine0")
    write_artefacts(tmp_path, second, evaluated=True)
    text = status(tmp_path)
    assert row(text, "paper")[2:5] == ["done", "outdated", "trained"] and row(text, "total")[2:5] == ["1", "1", "0"]
    assert "outdated: trained by other code, will be trained again." in " ".join(text.split())
    assert first.id not in text and first.id in "\n".join(after(status(tmp_path, "--missing"), "Outdated:"))


def test_a_failed_download_is_shown_with_the_runs_that_wait_for_it(tmp_path: Path, plan: Plan) -> None:
    run = next(iter(plan.runs.values()))
    fetch = next(data_logs(plan, run))
    write(tmp_path / fetch, started(1), record("mnist-5k: cannot be had", "ERROR"), ended(1, "failed"))
    line, reason = after(status(tmp_path), "failed  fetch")
    waiting = sum(other.dataset == run.dataset for other in plan.runs.values())
    assert line == f"failed  fetch, log {fetch}, {waiting} missing runs wait for it"
    assert reason.strip() == "mnist-5k: cannot be had"


def test_other_jobs_that_succeeded_later_or_are_not_of_the_plan_are_left_out(tmp_path: Path, plan: Plan) -> None:
    failed = (started(1), record("mistake", "ERROR"), ended(1, "failed"))
    for log in data_logs(plan, next(iter(plan.runs.values()))):
        write(tmp_path / log, *failed, started(2), ended(2, "finished"))
    others = (
        "fetch/no-such-dataset",
        "partition/data/mnist-5k/old/seed0",
        "tables/paper/pfedbayes/table1",
        "report/paper",
    )
    for name in others:
        write(tmp_path / f"logs/{name}.log", *failed)
    assert "Other jobs" not in status(tmp_path)
    for name in ("tables/smoke/pfedbayes/table1", "report/smoke", "store"):
        write(tmp_path / f"logs/{name}.log", *failed)
    lines = after(status(tmp_path), "Other jobs")[1:]
    logs = ("logs/report/smoke.log", "logs/store.log", "logs/tables/smoke/pfedbayes/table1.log")
    assert [line.split()[-1] for line in lines[::2]] == list(logs)


def test_every_log_of_a_runs_data_is_where_the_rules_have_it() -> None:
    rules = (ROOT / "workflow/rules/data.smk").read_text()
    for pattern in ("fetch/{dataset}", "partition/{root}/{dataset}/{split}/seed{seed}"):
        assert f'"logs/{pattern}.log"' in rules
    assert '"logs/corrupt/{dataset}/{split}/{shift}/seed{seed}.log"' in rules
    plan = make_plan(papers=["lrbpfl"])
    logs = {log.split("/")[1] for run in plan.runs.values() for log in data_logs(plan, run)}
    assert logs == {"fetch", "partition", "corrupt"}


def test_what_ran_on_slurm_is_tried_again_there() -> None:
    assert command(["x"], ["--config", "scale=paper"], True) == "snakemake --profile slurm --config scale=paper -- x"


@pytest.mark.parametrize("choice", ["scale", "scale=papr", "papers=[pfedbaies]", "sedes=[0]"])
def test_a_mistake_is_one_sentence(tmp_path: Path, choice: str) -> None:
    with pytest.raises(ConfigError, match=r"expected KEY=VALUE|did you mean"):
        status(tmp_path, choice)


def test_choices_are_read_as_snakemake_reads_them(tmp_path: Path) -> None:
    own = write(tmp_path / "mine.yaml", "scale: paper\npapers: [bpfed]\n")
    text = main(["--configfile", str(own), "seeds=[0]", "execution={device: auto}"], ROOT)
    assert row(text, "total")[1] == str(len(make_plan(papers=["bpfed"], scale="paper", seeds=[0]).runs))
    assert f"--configfile {own} --config 'seeds=[0]' 'execution={{device: auto}}'" in text


def test_the_whole_campaign_is_quick_and_needs_neither_torch_nor_mlflow() -> None:
    code = (
        "import sys; from pathlib import Path; from fedbayes.status.__main__ import main;"
        "main(['scale=paper'], Path());"
        "sys.exit(str(heavy) if (heavy := {'torch', 'mlflow', 'pandas', 'numpy'} & set(sys.modules)) else 0)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # CPU seconds: other tests run beside this one. It takes about one.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 3
