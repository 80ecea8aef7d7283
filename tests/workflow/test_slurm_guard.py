"""The guards around SLURM's executor: the installed plugin, its commands replaced; tests/slurm has the real thing."""

from __future__ import annotations

import asyncio
import errno
import importlib
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fedbayes import slurm_guard, slurm_runs
from fedbayes.costs import Cost
from fedbayes.job_requests import memory_mb, minutes


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A fresh copy of the plugin, as Snakemake loads it."""
    for name in [name for name in sys.modules if name.split(".")[0] == slurm_guard.PLUGIN]:
        monkeypatch.delitem(sys.modules, name)
    fresh = importlib.import_module(slurm_guard.PLUGIN)
    monkeypatch.setitem(sys.modules, slurm_guard.PLUGIN, fresh)
    return fresh


class Limiter:
    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *args: object) -> None: ...


def executor(plugin: ModuleType, answers: list[dict[str, str] | None]) -> Any:
    """An executor whose status queries get these answers, one a query; None is a query that fails."""
    made = plugin.Executor.__new__(plugin.Executor)
    settings = SimpleNamespace(status_attempts=1, init_seconds_before_status_checks=1, keep_successful_logs=True,
                               status_command="sacct", requeue=True)  # fmt: skip
    made.workflow = SimpleNamespace(executor_settings=settings)
    made.logger = SimpleNamespace(**dict.fromkeys(("debug", "info", "warning", "error"), lambda *_, **__: None))
    made.status_rate_limiter, made.run_uuid = Limiter(), "uuid"
    made._preemption_warning, made._status_query_cycle_rows = False, []
    made._status_query_calls = made._status_query_failures = 0
    made._status_query_total_seconds = made._status_query_max_seconds = 0.0
    made._status_query_min_seconds, made._next_seconds_between_status_checks = None, 1
    made.ended = []
    made.report_job_success = lambda job: made.ended.append((job.external_jobid, "success"))
    made.report_job_error = lambda job, **_: made.ended.append((job.external_jobid, "error"))
    remaining = iter(answers)

    async def query(command: str, logger: object) -> tuple[dict[str, str] | None, float | None]:
        states = next(remaining)
        return states, None if states is None else 0.1

    plugin.query_job_status = query  # type: ignore[attr-defined]
    plugin.is_query_tool_available = lambda tool: True  # type: ignore[attr-defined]
    plugin.get_min_job_age = lambda: 300  # type: ignore[attr-defined]
    return made


def check(made: Any, jobs: list[Any]) -> list[Any]:
    async def collect() -> list[Any]:
        return [job async for job in made.check_active_jobs(jobs)]

    return asyncio.run(collect())


JOBS = [SimpleNamespace(external_jobid=str(i), aux={}) for i in (1, 2)]


def test_the_executor_alone_forgets_its_jobs_when_queries_fail(plugin: ModuleType) -> None:
    """The gap itself: once this fails, a newer executor has closed it and the guard can go."""
    assert check(executor(plugin, [None]), JOBS) == []


def test_jobs_are_kept_while_queries_fail_and_reported_once_they_answer(plugin: ModuleType) -> None:
    made = executor(plugin, [None, None, {"1": "COMPLETED", "2": "RUNNING"}])
    slurm_guard.guard(60)
    assert check(made, JOBS) == JOBS and check(made, JOBS) == JOBS and made.ended == []
    assert check(made, JOBS) == JOBS[1:] and made.ended == [("1", "success")]


def test_beyond_its_patience_it_ends_with_a_sentence(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 59.0, 61.0])
    monkeypatch.setattr(slurm_guard, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    made = executor(plugin, [None, None, None])
    slurm_guard.guard(60)
    assert check(made, JOBS) == JOBS and check(made, JOBS) == JOBS
    with pytest.raises(plugin.WorkflowError, match=r"SLURM has not answered for 61 s \(sacct fails\).*= 60 in config"):
        check(made, JOBS)


def test_a_cancelled_job_has_failed(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin.subprocess, "check_output", lambda *_, **__: "")
    made = executor(plugin, [{"1": "CANCELLED by 1000", "2": "RUNNING"}])
    slurm_guard.guard(60)
    assert check(made, JOBS) == JOBS[1:] and made.ended == [("1", "error")]


def test_a_failed_job_says_what_slurm_says(plugin: ModuleType, tmp_path: Path) -> None:
    log, said = tmp_path / "7.log", list[str]()
    log.write_text("round 1\nslurmstepd-n1: error: Exceeded job memory limit\nslurmstepd-n1: error: *** STEP ENDED\n")
    plugin.Executor.report_job_error = lambda self, job, msg, **_: said.append(msg)  # type: ignore[attr-defined]
    slurm_guard.guard(60)
    made = plugin.Executor.__new__(plugin.Executor)
    made.report_job_error(SimpleNamespace(aux={"slurm_logfile": log}), msg="SLURM-job '7' failed.")
    made.report_job_error(SimpleNamespace(aux=None), msg="SLURM sbatch failed.")
    made.report_job_error(SimpleNamespace(aux={"slurm_logfile": tmp_path / "none"}))
    assert said == [
        "SLURM-job '7' failed. SLURM's log says: killed: out of memory. ",
        "SLURM sbatch failed.",
        None,
    ]


def test_a_submission_waits_for_the_controller(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[str] = []
    plugin.Executor.run_job = lambda self, job: submitted.append(job)  # type: ignore[attr-defined]
    down = "Slurmctld(primary) at here is DOWN"
    says = iter([down, down, "Slurmctld(primary) at here is UP"])
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: next(says))
    monkeypatch.setattr(slurm_guard, "SECONDS_BETWEEN_PINGS", 0.0)
    made = executor(plugin, [])
    slurm_guard.guard(60)
    made.run_job("a job")
    assert submitted == ["a job"] and next(says, None) is None
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: "")
    made.run_job("another")
    assert submitted[1:] == ["another"], "no scontrol here, or none that speaks so: sbatch will tell"


def test_a_controller_that_stays_away_ends_the_run_and_nobody_waits_for_it(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted, ended = list[str](), list[Exception]()
    plugin.Executor.run_job = lambda self, job: submitted.append(job)  # type: ignore[attr-defined]
    plugin.Executor.shutdown = lambda self: None  # type: ignore[attr-defined]
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: "Slurmctld(primary) at here is DOWN")
    monkeypatch.setattr(slurm_guard, "SECONDS_BETWEEN_PINGS", 0.01)
    made = executor(plugin, [])
    made.workflow.scheduler = SimpleNamespace(executor_error_callback=ended.append)
    slurm_guard.guard(0.02)
    made.run_job("a job")
    assert submitted == [] and "controller has not answered" in str(ended[0])
    monkeypatch.setattr(slurm_guard, "SECONDS_BETWEEN_PINGS", 3600)
    made.shutdown()
    made.run_job("a job")
    assert submitted == []


def test_a_job_that_does_not_come_back_has_failed(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is not listed, one was cancelled in the queue; a third has come back in between, a fourth is in the queue."""
    clock = [0.0]
    monkeypatch.setattr(slurm_guard, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    jobs = [SimpleNamespace(external_jobid=str(i), aux={}) for i in (1, 2, 3, 4)]
    gone, back = {"2": "REQUEUED", "3": "PREEMPTED"}, {"2": "REQUEUED", "3": "RUNNING"}
    queue = {
        "1": (1, "", "slurm_load_jobs error: Invalid job id specified"),
        "2": (0, "", ""),
        "4": (0, "PENDING\n", ""),
    }
    asked: list[tuple[str, ...]] = []

    def ran(*command: str) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        found = queue[command[3]] if command[0] == "squeue" else (0, "", "")
        return subprocess.CompletedProcess(command, *found)

    monkeypatch.setattr(slurm_guard, "_ran", ran)
    made = executor(plugin, [gone, back, gone, gone])
    slurm_guard.guard(60)
    assert check(made, jobs) == jobs
    clock[0] = 59.0
    assert check(made, jobs) == jobs
    clock[0] = 61.0
    assert check(made, jobs) == jobs[2:] and made.ended == [("1", "error"), ("2", "error")]
    cancelled = [command for command in asked if command[0] == "scancel"]
    assert cancelled == [("scancel", "1"), ("scancel", "2")], "should SLURM find them again, they do not come back"
    queue["4"] = (0, "COMPLETING\n", "")
    clock[0] = 100.0
    assert check(made, jobs[3:]) == jobs[3:], "asked again after as long"


@pytest.mark.parametrize(
    ("answer", "queued"),
    [
        ((0, "RUNNING\n", ""), True),
        ((0, "COMPLETING\n", ""), False),
        ((0, "", ""), False),
        ((1, "", "slurm_load_jobs error: Invalid job id specified"), False),
        ((1, "", "slurm_load_jobs error: Unable to contact slurm controller"), True),
        (None, True),
    ],
)
def test_only_a_job_that_the_controller_does_not_have_either_is_lost(
    answer: tuple[int, str, str] | None, queued: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = None if answer is None else subprocess.CompletedProcess((), *answer)
    monkeypatch.setattr(slurm_guard, "_ran", lambda *command: done)
    assert slurm_guard._is_queued("7") == queued


def test_checks_do_not_become_rare(plugin: ModuleType) -> None:
    """The executor alone waits longer and longer, up to three minutes: squeue may have forgotten a job by then."""
    made = executor(plugin, [{"1": "RUNNING", "2": "RUNNING"}, None])
    slurm_guard.guard(60)
    for _ in range(2):
        made.next_seconds_between_status_checks = 170
        assert check(made, JOBS) == JOBS
        assert made.next_seconds_between_status_checks == slurm_guard.MOST_SECONDS_BETWEEN_CHECKS


def test_ctrl_c_does_not_wait_for_a_controller_that_is_down(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission waits for the controller in a thread of its own, and the jobs cannot be cancelled."""
    submitted, shut = list[str](), list[bool]()

    def cannot(self: Any) -> None:
        raise plugin.WorkflowError("Unable to cancel jobs with scancel (exit code 1)")

    plugin.Executor.run_job = lambda self, job: submitted.append(job)  # type: ignore[attr-defined]
    plugin.Executor.shutdown = lambda self: shut.append(True)  # type: ignore[attr-defined]
    plugin.Executor.cancel = cannot  # type: ignore[attr-defined]
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: "Slurmctld(primary) at here is DOWN")
    made = executor(plugin, [])
    slurm_guard.guard(3600)
    waiting = threading.Thread(target=made.run_job, args=("a job",))
    waiting.start()
    made.cancel()
    waiting.join(60)
    assert not waiting.is_alive() and submitted == [] and shut == [True]


def test_ctrl_c_leaves_no_job_behind(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is being submitted, one waits for its turn, and one is off the list because its state is being asked for."""
    submitted, cancelled, under_way, go_on = list[str](), list[str](), threading.Event(), threading.Event()

    def submit(self: Any, job: str) -> None:
        under_way.set()
        assert go_on.wait(60)
        submitted.append(job)

    def scancel(*command: str) -> bool:
        cancelled.append(f"{command[1]} after {len(submitted)}")
        return True

    plugin.Executor.run_job = submit  # type: ignore[attr-defined]
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: "")
    monkeypatch.setattr(slurm_guard, "_succeeds", scancel)
    made = executor(plugin, [])
    made.lock, made.active_jobs, made._submitted_job_clusters = threading.Lock(), [], set()
    made._job_submission_executor = ThreadPoolExecutor(1)
    slurm_guard.guard(60)
    plugin.Executor.shutdown = lambda self: None  # type: ignore[attr-defined]
    for job in ("under way", "queued"):
        made._job_submission_executor.submit(made.run_job, job)
    assert under_way.wait(60)
    threading.Timer(0.2, go_on.set).start()
    made.cancel()
    assert submitted == ["under way"] and cancelled == ["--name=uuid after 1"]


def test_a_submission_that_slurm_may_take_later_is_no_failed_attempt(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = (
        "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates policy"
    )
    failures = [refusal, refusal, "", "sbatch: error: invalid partition specified: short"]
    submitted, failed, remaining = list[str](), list[str](), iter(failures)

    def submit(self: Any, job: str) -> None:
        # As the executor does.
        try:
            if said := next(remaining):
                error = f"SLURM sbatch failed. The error message was '{said}'.\n    sbatch call:\n        sbatch ...\n"
                self._report_job_error_threadsafe(job, error)
                return
            submitted.append(job)
        except Exception:
            pytest.fail("it must not get here")

    plugin.Executor.run_job = submit  # type: ignore[attr-defined]
    plugin.Executor._report_job_error_threadsafe = lambda self, job, msg: failed.append(job)  # type: ignore[attr-defined]
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: "")
    monkeypatch.setattr(slurm_guard, "SECONDS_BETWEEN_SUBMISSIONS", 0.0)
    monkeypatch.setattr(slurm_guard.LOG, "propagate", True)
    made = executor(plugin, [])
    slurm_guard.guard(60)
    made.run_job("1")
    made.run_job("2")
    assert submitted == ["1"] and failed == ["2"]
    assert caplog.messages == ["SLURM takes no job now (QOSMaxSubmitJobPerUserLimit); waiting until it does."]


# What SLURM 22.05 says while its controller is away, as the executor hands it on.
AWAY = "Unable to contact slurm controller (connect failure)"
NO_SBATCH = (
    "SLURM sbatch failed. The error message was 'sbatch: error: Batch job submission failed: {}'.\n    sbatch call:"
)
NO_SINFO = (
    "Job submission failed with exception: Failed to run sinfo for retrieval of cluster partitions: "
    f"slurm_load_partitions: {AWAY}\n"
)
NO_SSHARE = (
    "Job submission failed with exception: The 'sacctmgr' reported: 'Unable to test the validity of the given or "
    "guessed SLURM account 'tests' with sacctmgr: sacctmgr: error: Sending PersistInit msg: Connection refused\n.' and "
    "likewise 'sshare' reported: 'Unable to test the validity of the given or guessed SLURM account 'tests' with "
    f"sshare: Couldn't get shares from controller: {AWAY}\n.'."
)


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (NO_SBATCH.format(AWAY), AWAY),
        *((NO_SBATCH.format(words), words) for words in (
            "Slurm backup controller in standby mode",
            "Controller is in standby mode, try a different controller",
            "Zero Bytes were transmitted or received",
        )),
        (NO_SINFO, AWAY),
        (NO_SSHARE, AWAY),
    ],
    ids=["sbatch", "backup", "standby", "cut off", "sinfo", "sshare"],
)  # fmt: skip
def test_a_controller_that_goes_away_before_it_has_the_job_costs_no_attempt(
    failure: str, why: str, plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It still answers the ping; the run ends only beyond its patience."""
    clock, submitted, failed, ended = [0.0], list[str](), list[str](), list[Exception]()
    failures = iter([failure, failure, ""])

    def submit(self: Any, job: str) -> None:
        clock[0] += 40
        if said := next(failures, failure):
            self._report_job_error_threadsafe(job, said)
        else:
            submitted.append(job)

    plugin.Executor.run_job = submit  # type: ignore[attr-defined]
    plugin.Executor._report_job_error_threadsafe = lambda self, job, msg: failed.append(job)  # type: ignore[attr-defined]
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: "Slurmctld(primary) at here is UP")
    monkeypatch.setattr(slurm_guard, "SECONDS_BETWEEN_SUBMISSIONS", 0.0)
    monkeypatch.setattr(slurm_guard, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(slurm_guard.LOG, "propagate", True)
    made = executor(plugin, [])
    made.workflow.scheduler = SimpleNamespace(executor_error_callback=ended.append)
    slurm_guard.guard(60)
    made.run_job("1")
    assert submitted == ["1"] and failed == [] and ended == []
    assert caplog.messages == [
        f"SLURM's controller does not answer ({why}); waiting up to 60 s.",
        "SLURM's controller answers again after 80 s.",
    ]
    made.run_job("2")
    assert submitted == ["1"] and failed == [] and f"has not answered for 80 s ({why})" in str(ended[0])


def test_a_cluster_without_accounting_is_asked_by_squeue(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plugin.Executor.__post_init__ = lambda self: None  # type: ignore[attr-defined]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm_guard.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: "Slurm accounting storage is disabled")
    made = executor(plugin, [])
    slurm_guard.guard(60)
    made.__post_init__()
    assert made.workflow.executor_settings.status_command == "squeue"
    assert not plugin.is_query_tool_available("sacct"), "nor is it turned back to"


@pytest.fixture
def started(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Any]:
    """Makes the executor of a Snakemake that starts in a folder of its own, its jobs called by a name."""
    plugin.Executor.__post_init__ = lambda self: None  # type: ignore[attr-defined]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm_guard.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(slurm_guard, "_said", lambda *command: "")
    slurm_guard.guard(60)

    def start(name: str) -> Any:
        made = executor(plugin, [])
        made.run_uuid = name
        made.__post_init__()
        return made

    return start


def test_jobs_of_a_snakemake_that_was_killed_are_cancelled(
    started: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the first one when the third starts, because SLURM does not answer the second."""
    asked, answers = list[tuple[str, ...]](), iter([False, True, True, True])
    monkeypatch.setattr(slurm_guard, "_succeeds", lambda *command: asked.append(command) or next(answers))
    for name in ("1st", "2nd", "3rd", "4th"):
        started(name).slurm_run.close()  # as when its process ends
    assert asked == [("scancel", f"--name={name}") for name in ("1st", "1st", "2nd", "3rd")]
    assert slurm_runs.ended() == ["4th"]


def test_jobs_of_a_living_snakemake_are_left_alone(
    started: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process is at work on other targets of the folder, until it is killed."""
    cancelled: list[str] = []
    monkeypatch.setattr(slurm_guard, "_succeeds", lambda *command: not cancelled.append(command[1]))
    code = "from fedbayes import slurm_runs; f = slurm_runs.begin('sibling'); print('begun', flush=True); input()"
    sibling = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert sibling.stdout is not None and sibling.stdout.readline() == "begun\n"
    kept = [started(name) for name in ("1st", "2nd")]
    assert cancelled == []
    sibling.kill()
    sibling.wait()
    kept.append(started("3rd"))
    assert cancelled == ["--name=sibling"] and slurm_runs.ended() == []
    for made in kept:
        made.slurm_run.close()


@pytest.mark.parametrize(
    ("host", "process", "lives"), [("here", "ours", True), ("here", "gone", False), ("x", "gone", True)]
)
def test_without_locks_host_and_process_tell(
    host: str, process: str, lives: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process of another machine may live."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm_runs.fcntl, "flock", no_locks)
    gone = subprocess.Popen(["true"])
    gone.wait()
    monkeypatch.setattr(slurm_runs.socket, "gethostname", lambda: host)
    monkeypatch.setattr(slurm_runs.os, "getpid", lambda: {"ours": 1, "gone": gone.pid}[process])
    slurm_runs.begin("name").close()
    monkeypatch.setattr(slurm_runs.socket, "gethostname", lambda: "here")
    assert slurm_runs.ended() == ([] if lives else ["name"])


def test_without_slurm_it_is_said_before_anything_starts(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_guard.shutil, "which", lambda name: None)
    made = executor(plugin, [])
    slurm_guard.guard(60)
    with pytest.raises(plugin.WorkflowError, match="sbatch was not found; run it on a login node"):
        made.__post_init__()


def test_jobs_ask_for_twice_their_estimate_and_more_with_every_attempt() -> None:
    small, large = Cost(60, 500, 1, False), Cost(5 * 3600, 4000, 1, False)
    assert [(memory_mb(small, a), minutes(small, a)) for a in (1, 2, 3)] == [(3000, 60), (6000, 120), (9000, 180)]
    assert [(memory_mb(large, a), minutes(large, a)) for a in (1, 2, 3)] == [(8000, 600), (16000, 1200), (24000, 1440)]
