"""Every state a run can be in, from what is in its folder and what the logs of its jobs say."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from artefacts import make_plan
from fedbayes.plan import Plan, Run
from fedbayes.status.jobs import Jobs, JobState
from fedbayes.status.runs import log_of, run_states
from prepared import (
    HOST,
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

ROUND = "run 0123456789ab fedavg on mnist-5k seed 0: round 3/10, loss 0.5120, gm 0.8340, 0.05 s, 512 MB, 1 s left"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan()


@pytest.fixture
def run(plan: Plan) -> Run:
    return next(iter(plan.runs.values()))


def state_of(folder: Path, plan: Plan, run: Run) -> JobState:
    return run_states(plan, Jobs(folder))[run.id]


def write_checkpoints(folder: Path, run: Run, *rounds: int) -> None:
    for round_ in rounds:
        write(folder / run.folder / f"checkpoint/round-{round_:06d}/progress.json")
    write(folder / run.folder / "checkpoint/.part-x/state.safetensors")


def test_in_an_empty_folder_everything_is_missing(tmp_path: Path, plan: Plan) -> None:
    assert {job.state for job in run_states(plan, Jobs(tmp_path)).values()} == {"missing"}


def test_done_is_trained_and_evaluated_whatever_older_logs_say(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_logs(tmp_path, "train", run, started(1), record("old mistake", "ERROR"), ended(1, "failed"))
    write_artefacts(tmp_path, run, evaluated=True)
    states = run_states(plan, Jobs(tmp_path))
    assert states[run.id].state == "done" and sum(job.state == "done" for job in states.values()) == 1


def test_trained_is_without_an_evaluation(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_artefacts(tmp_path, run, evaluated=False)
    assert state_of(tmp_path, plan, run).state == "trained"


@pytest.mark.parametrize("evaluated", [True, False])
def test_a_run_of_other_code_is_outdated(tmp_path: Path, plan: Plan, run: Run, evaluated: bool) -> None:
    write_artefacts(tmp_path, run, evaluated, code="0123456789ab-engine0")
    assert state_of(tmp_path, plan, run).state == "outdated"


def test_an_evaluation_of_an_earlier_training_does_not_count(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_artefacts(tmp_path, run, evaluated=True)
    os.utime(tmp_path / run.folder / "evaluation.parquet", (0, time.time() - 100))
    assert state_of(tmp_path, plan, run).state == "trained"


def test_an_evaluation_without_what_was_trained_is_not_done(tmp_path: Path, plan: Plan, run: Run) -> None:
    """Snakemake deletes the outputs of `train` before it trains again, and leaves those of `evaluate`."""
    write_artefacts(tmp_path, run, evaluated=True)
    (tmp_path / run.folder / "state.safetensors").unlink()
    write_logs(tmp_path, "train", run, started(1), record("new mistake", "ERROR"), ended(1, "failed"))
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.rule, job.reason) == ("failed", "train", "new mistake; starts anew")


def test_running_shows_what_it_said_last(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_logs(tmp_path, "train", run, started(living_process()), record(ROUND, "DEBUG"))
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.attempts, job.slurm) == ("running", 1, False)
    assert (
        job.reason.startswith("round 3/10, loss 0.5120, gm 0.8340, 0.05 s, 512 MB, 1 s left (") and "ago" in job.reason
    )
    assert job.where == f"{HOST}, process {living_process()}" and job.log.endswith(f"{run.id}.history.log")


def test_an_evaluation_can_run_and_fail_as_well(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_artefacts(tmp_path, run, evaluated=False)
    write_logs(tmp_path, "evaluate", run, started(living_process()))
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.rule) == ("running", "evaluate")
    write_logs(tmp_path, "evaluate", run, started(1), record("no such state", "ERROR"), ended(1, "failed"))
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.rule, job.reason) == ("failed", "evaluate", "no such state")


def test_failed_has_the_reason_of_the_last_attempt(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_logs(
        tmp_path,
        "train",
        run,
        *(started(1), record("first", "ERROR"), ended(1, "failed")),
        *(started(2), "Traceback\n", record("the job failed\nTraceback\n  File x\nValueError: second", "ERROR")),
        ended(2, "failed"),
    )
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.attempts, job.log) == ("failed", 2, log_of("train", run))
    assert job.reason == "ValueError: second; starts anew"


def test_a_failed_run_that_snakemake_has_taken_up_again_says_so(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_logs(tmp_path, "train", run, started(1), record("mistake", "ERROR"), ended(1, "failed"))
    (tmp_path / log_of("train", run)).unlink()
    job = state_of(tmp_path, plan, run)
    assert job.reason.startswith("mistake; a new attempt was prepared and has not begun")
    assert job.log.endswith(".history.log")


def test_a_killed_process_leaves_a_stopped_run_that_goes_on_from_its_checkpoint(
    tmp_path: Path, plan: Plan, run: Run
) -> None:
    write_logs(tmp_path, "train", run, started(dead_process()), record(ROUND))
    write_checkpoints(tmp_path, run, 2, 7)
    job = state_of(tmp_path, plan, run)
    assert job.state == "stopped" and job.reason.startswith("ended without a word")
    assert job.reason.endswith(f"goes on from round 7 of {run.spec['training']['rounds']}")


def test_a_run_that_was_asked_to_stop_has_not_failed(tmp_path: Path, plan: Plan, run: Run) -> None:
    stop = record("stopped by SIGTERM after round 3", "WARNING")
    write_logs(tmp_path, "train", run, started(1), stop, ended(1, "stopped"))
    write_checkpoints(tmp_path, run, 3)
    job = state_of(tmp_path, plan, run)
    assert job.state == "stopped" and job.reason.startswith("stopped by SIGTERM after round 3; goes on from round 3 of")


def test_a_checkpoint_without_a_log_is_a_stopped_run(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_checkpoints(tmp_path, run, 4)
    assert state_of(tmp_path, plan, run).state == "stopped"


def test_a_run_whose_files_were_deleted_is_missing(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_logs(tmp_path, "train", run, started(1), ended(1, "finished"))
    assert state_of(tmp_path, plan, run).state == "missing"


def test_a_second_writer_does_not_hide_the_one_at_work(tmp_path: Path, plan: Plan, run: Run) -> None:
    """A job that was thought dead fails after its successor began."""
    own = (started(1, host="n1"), started(living_process()))
    write_logs(tmp_path, "train", run, *own, record("disk full", "ERROR"), ended(1, "failed", host="n1"))
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.where) == ("running", f"{HOST}, process {living_process()}")


def test_another_machine_without_a_queue_is_unknown(tmp_path: Path, plan: Plan, run: Run) -> None:
    write_logs(tmp_path, "train", run, started(1, host="elsewhere"), record(ROUND))
    job = state_of(tmp_path, plan, run)
    assert job.state == "unknown" and "round 3/10" in job.reason and "ago" in job.reason


SILENT = "echo 'Unable to contact slurm controller' >&2; exit 1"


@pytest.mark.parametrize(
    ("queue", "said_by_slurm", "state", "reason"),
    [
        ("echo '77 RUNNING'", "", "running", "round 3/10"),
        ("echo '77 PENDING'", "", "queued", "SLURM has it in its queue again (PENDING); starts anew"),
        ("true", "", "stopped", "ended without a word"),
        ("echo '77 OUT_OF_MEMORY'", "", "failed", "killed: out of memory"),
        ("true", "slurmstepd: error: Exceeded job memory limit at some point.", "failed", "killed: out of memory"),
        (
            "true",
            "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***",
            "stopped",
            "time limit",
        ),
        ("true", "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026 DUE TO PREEMPTION ***", "stopped", "preempted"),
        ("true", "a method of ours prints: out of memory", "stopped", "ended without a word"),
        (SILENT, "", "unknown", "round 3/10"),
    ],
)
def test_slurm_knows_what_became_of_its_jobs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plan: Plan,
    run: Run,
    queue: str,
    said_by_slurm: str,
    state: str,
    reason: str,
) -> None:
    fake_squeue(tmp_path, monkeypatch, queue)
    write_logs(tmp_path, "train", run, started(1, slurm="77", host="n1"), record(ROUND))
    write(tmp_path / f".snakemake/slurm_logs/rule_train/{run.id}/77.log", "Snakemake says much\n", said_by_slurm)
    job = state_of(tmp_path, plan, run)
    assert job.state == state and reason in job.reason and job.slurm and "SLURM job 77" in job.where


def test_a_job_that_slurm_started_again_keeps_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Plan, run: Run
) -> None:
    fake_squeue(tmp_path, monkeypatch, "echo '77 RUNNING'")
    stop = record("stopped by SIGTERM after round 3", "WARNING")
    first = (started(1, slurm="77", host="n1"), stop, ended(1, "stopped", host="n1"))
    write_logs(tmp_path, "train", run, *first, started(5, slurm="77", host="n2"), record(ROUND))
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.attempts, job.where) == ("running", 2, "n2, process 5, SLURM job 77")


def test_a_job_that_goes_back_into_the_queue_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Plan, run: Run
) -> None:
    fake_squeue(tmp_path, monkeypatch, "echo '77 PENDING'")
    stop = record("stopped by SIGTERM after round 3", "WARNING")
    write_logs(tmp_path, "train", run, started(1, slurm="77", host="n1"), stop, ended(1, "stopped", host="n1"))
    write_checkpoints(tmp_path, run, 3)
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.log) == ("queued", log_of("train", run))
    assert job.reason.startswith("stopped by SIGTERM after round 3; SLURM has it in its queue again (PENDING); goes on")


FAILED_UNLOGGED = """\
Select jobs to execute...
Error in rule train:
    message: {message}
    jobid: 5
    input: resources/mnist-5k/inputs.npy
    output: {folder}/state.safetensors
    log: {logs} (check log file(s) for error details)
"""


@pytest.mark.parametrize("slurm", [True, False])
def test_a_job_that_failed_before_it_could_write_a_log(tmp_path: Path, plan: Plan, run: Run, slurm: bool) -> None:
    log, by_slurm = log_of("train", run), f"{tmp_path}/.snakemake/slurm_logs/rule_train/x/77.log"
    logs, message = (f"{log}, {by_slurm}", "SLURM-job '77' failed") if slurm else (log, "None")
    text = FAILED_UNLOGGED.format(folder=run.folder, logs=logs, message=message)
    write(tmp_path / ".snakemake/log/2026-01-01T000000.1.snakemake.log", "Error in rule train:\n    log: old.log\n")
    newest = write(tmp_path / ".snakemake/log/2026-01-02T000000.1.snakemake.log", text)
    if slurm:
        write(tmp_path / log)  # a job that SLURM ends early leaves an empty one
    job = state_of(tmp_path, plan, run)
    assert (job.state, job.slurm) == ("failed", slurm)
    assert job.log == (by_slurm if slurm else str(newest.relative_to(tmp_path)))
    said = f"ended before its own log began{': ' + message if slurm else ''}; starts anew"
    assert job.reason == said


def test_what_a_log_says_goes_before_what_snakemake_says(tmp_path: Path, plan: Plan, run: Run) -> None:
    text = FAILED_UNLOGGED.format(folder=run.folder, logs=log_of("train", run), message="None")
    write(tmp_path / ".snakemake/log/2026-01-02T000000.1.snakemake.log", text)
    write_logs(tmp_path, "train", run, started(1), record("mistake", "ERROR"), ended(1, "failed"))
    assert state_of(tmp_path, plan, run).reason == "mistake; starts anew"
