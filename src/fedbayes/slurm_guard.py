"""Snakemake's SLURM executor, made to outlast a cluster that does not answer.

Version 2.8 of the executor has gaps; with most of them Snakemake waits for ever or gives up too soon:

- If every status query of a check fails (the controller or the accounting database is down), it forgets all its jobs.
  Here they are kept, and asked about again; after `patience` seconds without an answer the run ends with a sentence.
- A job that SLURM does not list, has preempted for good or has lost with its node is waited for without end. Here it
  has failed after `patience` seconds.
- A job that somebody cancelled is reported as `CANCELLED by 1000`, a status it does not know. Here it is `CANCELLED`.
- A submission that meets a controller that is down, or goes down before it has the job, or is refused for a reason that
  passes (a user has as many jobs in the queue as may be), fails the job, and all its retries within seconds. Here it
  waits.
- What SLURM says of a job it killed (memory, time) stands in a file among others. Here it is a part of the message.
- Jobs of a Snakemake that was killed live on, and would start over what the next one has finished. Here the next one
  cancels them first, as soon as SLURM lets it; those that train keep a checkpoint.
- Ctrl-C cancels the jobs on its list: not those that a check of states has just taken off it, nor those that are being
  submitted. Here it cancels them all, and submits no more.
- Ctrl-C while the controller is down waits for submissions that wait for the controller. Here it does not, and the next
  start cancels the jobs.

And it asks `sacct` wherever that command is installed, which fails on a cluster without an accounting database; there
`squeue` is asked, and often enough not to miss the end of a job. `guard` puts these around the executor's class. It
does nothing to other executors.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fedbayes import slurm_runs
from fedbayes.slurm_logs import why_ended
from fedbayes.slurm_silence import Silence

PLUGIN = "snakemake_executor_plugin_slurm"
NO_ACCOUNTING = "accounting storage is disabled"
SECONDS_BETWEEN_PINGS = 5.0
# `squeue` knows an ended job for MinJobAge seconds only; the executor would ask every three minutes in the end.
MOST_SECONDS_BETWEEN_CHECKS = 60
# What SLURM says of a submission that it may take later, and how long it is left alone then.
LATER = ("Socket timed out", "temporarily un", "MaxSubmitJob", "GrpSubmitJob")
SECONDS_BETWEEN_SUBMISSIONS = 30.0
# What sbatch says, or a command that the executor runs before it (sinfo, sshare), when the controller is away.
AWAY = ("Unable to contact slurm controller", "in standby mode", "Zero Bytes were transmitted")
# A job in such a state comes back by itself or never. Accounting keeps the last one also of a job that was cancelled
# before it started again.
MAY_COME_BACK = ("PREEMPTED", "NODE_FAIL", "REQUEUED")
LOG = logging.getLogger("snakemake.logging")


class Refused(BaseException):
    """SLURM may take this submission later. No `Exception`: the executor makes a failed attempt of any of these."""


class Unreached(Refused):
    """The controller was not there to take it, although it had just answered."""


class Answers:
    """What the last status query brought: states by job, or None if it failed."""

    def __init__(self) -> None:
        self.states: dict[str, str] | None = {}

    def begin(self) -> None:
        """Before a check, which may find nothing to ask."""
        self.states = {}

    def failed(self) -> bool:
        """Whether the last query of a check brought nothing."""
        return self.states is None


def guard(patience: float) -> None:
    """Put the guards around SLURM's executor, if Snakemake has loaded it and they are not there yet."""
    plugin = sys.modules.get(PLUGIN)
    if plugin is None or hasattr(plugin.Executor, "guarded"):
        return
    plugin.Executor.guarded = True
    _look_at_cluster_first(plugin)
    _keep_jobs(plugin, _listen_to_queries(plugin), patience)
    _wait_to_submit(plugin, patience)
    _say_why(plugin)


def _look_at_cluster_first(plugin: Any) -> None:
    """Before anything is submitted: SLURM's commands are there, job states can be asked for, old jobs are gone."""
    original = plugin.Executor.__post_init__

    def post_init(self: Any, *args: Any, **kwargs: Any) -> None:
        if shutil.which("sbatch") is None:
            raise plugin.WorkflowError(
                "--profile slurm: SLURM's command sbatch was not found; run it on a login node of the cluster, or use "
                "'snakemake --cores all' for this machine alone."
            )
        settings = self.workflow.executor_settings
        if settings.status_command == "sacct" and NO_ACCOUNTING in _said("sacct", "-n", "-X").lower():
            LOG.warning("This cluster has no accounting database: job states are asked for by squeue.")
            settings.status_command = "squeue"
            # Where SLURM forgets ended jobs soon, the executor would turn back to sacct.
            plugin.is_query_tool_available = lambda tool: tool != "sacct" and shutil.which(tool) is not None
        original(self, *args, **kwargs)
        _cancel_earlier()
        # Locked while this process lives: others leave its jobs alone.
        self.slurm_run = slurm_runs.begin(self.run_uuid)

    plugin.Executor.__post_init__ = post_init


def _cancel_earlier() -> None:
    """Cancel the jobs of Snakemakes that have ended in this folder; those that SLURM cannot be told of are kept."""
    told = True
    for name in slurm_runs.ended():
        if cancelled := _succeeds("scancel", f"--name={name}"):
            slurm_runs.forget(name)
        told = told and cancelled
    if not told:
        LOG.warning("SLURM could not be told to cancel the jobs of an earlier Snakemake; the next start tries again.")


def _listen_to_queries(plugin: Any) -> Answers:
    """Keep what queries bring; states that have a tail are cut to their name."""
    original, answers = plugin.query_job_status, Answers()

    async def query(command: str, logger: Any) -> tuple[dict[str, str] | None, float | None]:
        states, seconds = await original(command, logger)
        answers.states = None if states is None else {job: state.split()[0] for job, state in states.items()}
        return answers.states, seconds

    plugin.query_job_status = query
    return answers


def _keep_jobs(plugin: Any, answers: Answers, patience: float) -> None:
    """No job is forgotten in a check whose queries all failed, and none is waited for that does not come back."""
    original = plugin.Executor.check_active_jobs
    silence = Silence("SLURM", patience, plugin.WorkflowError, time.monotonic)
    lost: dict[str, float] = {}

    def is_lost(job: Any) -> bool:
        """Whether nothing has been heard of a job for longer than patience allows."""
        states = answers.states or {}
        state = next((states[id_] for id_ in plugin._status_lookup_ids(job.external_jobid) if id_ in states), None)
        if state is not None and state not in MAY_COME_BACK:
            lost.pop(job.external_jobid, None)
            return False
        if time.monotonic() - lost.setdefault(job.external_jobid, time.monotonic()) <= patience:
            return False
        if _is_queued(job.external_jobid):
            # Accounting may lose what the controller has; it is asked again after as long.
            del lost[job.external_jobid]
            return False
        return True

    async def check_active_jobs(self: Any, active_jobs: list[Any]) -> AsyncIterator[Any]:
        answers.begin()
        still_active = [job async for job in original(self, active_jobs)]
        soon = min(self.next_seconds_between_status_checks, MOST_SECONDS_BETWEEN_CHECKS)
        self.next_seconds_between_status_checks = soon
        if answers.failed():
            silence.goes_on(f"{self.get_status_command()} fails")
            for job in active_jobs:
                yield job
            return
        silence.broken()
        for job in still_active:
            if is_lost(job):
                name = job.external_jobid
                # Should SLURM find it again, it must not take the run from the job that follows.
                _succeeds("scancel", name)
                self.report_job_error(job, msg=f"SLURM-job '{name}' has not come back within {patience:.0f} s.")
            else:
                yield job

    plugin.Executor.check_active_jobs = check_active_jobs


def _wait_to_submit(plugin: Any, patience: float) -> None:
    """A job is submitted when SLURM takes jobs, and none once the run is to end."""
    submit, shut_down, fail = plugin.Executor.run_job, plugin.Executor.shutdown, _fail_unless_refused(plugin)
    ending, full = threading.Event(), threading.Event()
    silence = Silence("SLURM's controller", patience, plugin.WorkflowError, time.monotonic)

    def submit_once(self: Any, job: Any) -> bool:
        """Whether SLURM has the job; if it has not, some time has passed and it may be asked again."""
        if " is DOWN" in (said := _said("scontrol", "ping")) and " is UP" not in said:
            silence.goes_on(" ".join(said.split()))
            ending.wait(SECONDS_BETWEEN_PINGS)
            return False
        if ending.is_set():
            return False
        try:
            submit(self, job)
        except Unreached as unreached:
            silence.goes_on(str(unreached))
            ending.wait(SECONDS_BETWEEN_SUBMISSIONS)
            return False
        except Refused as refused:
            silence.broken()
            if not full.is_set():
                LOG.warning(f"SLURM takes no job now ({refused}); waiting until it does.")
            full.set()
            ending.wait(SECONDS_BETWEEN_SUBMISSIONS)
            return False
        silence.broken()
        full.clear()
        return True

    def run_job(self: Any, job: Any) -> None:
        try:
            while not ending.is_set() and not submit_once(self, job):
                pass
        except plugin.WorkflowError as error:
            # Ends the whole run: all other jobs would fail one by one for the same reason.
            self.workflow.scheduler.executor_error_callback(error)

    def shutdown(self: Any) -> None:
        ending.set()
        shut_down(self)

    plugin.Executor.run_job, plugin.Executor.shutdown = run_job, shutdown
    plugin.Executor._report_job_error_threadsafe = fail
    _cancel_all(plugin, ending)


def _fail_unless_refused(plugin: Any) -> Callable[[Any, Any, str], None]:
    """The report of a job that could not be submitted; one that may be taken later is `Refused` instead."""
    original = plugin.Executor._report_job_error_threadsafe

    def report(self: Any, job_info: Any, msg: str) -> None:
        said = msg.split("sbatch call:")[0].splitlines()
        if msg.startswith(("SLURM sbatch failed", "Job submission failed")):
            for kind, reasons in ((Unreached, AWAY), (Refused, LATER)):
                if lines := [line for line in said if any(reason in line for reason in reasons)]:
                    raise kind(lines[0].rpartition(": ")[2].rstrip("'."))
        original(self, job_info, msg)

    return report


def _cancel_all(plugin: Any, ending: threading.Event) -> None:
    """Who ends the run leaves no job behind, if SLURM can be told, and waits for none that was not submitted yet."""
    cancel, cancel_listed, shut_down = plugin.Executor.cancel, plugin.Executor.cancel_jobs, plugin.Executor.shutdown

    def cancel_jobs(self: Any, active_jobs: list[Any]) -> None:
        cancel_listed(self, active_jobs)
        # A check of states has taken its jobs off the list, and a submission under way has not put its one there.
        self._job_submission_executor.shutdown(wait=True)
        if not _succeeds("scancel", f"--name={self.run_uuid}"):
            raise plugin.WorkflowError("scancel failed")

    def cancel_or_say_so(self: Any) -> None:
        ending.set()
        try:
            cancel(self)
        except plugin.WorkflowError as error:
            LOG.error(f"The jobs could not be cancelled and go on; the next start cancels them. {error}")
            shut_down(self)

    plugin.Executor.cancel_jobs, plugin.Executor.cancel = cancel_jobs, cancel_or_say_so


def _say_why(plugin: Any) -> None:
    """The message about a job that failed ends with the reason that SLURM has written into its log."""
    original = plugin.Executor.report_job_error

    def report_job_error(self: Any, job_info: Any, msg: str | None = None, **kwargs: Any) -> None:
        log = (job_info.aux or {}).get("slurm_logfile")
        if reason := why_ended(Path(log)) if log else "":
            msg = f"{msg or ''} SLURM's log says: {reason}. "
        original(self, job_info, msg=msg, **kwargs)

    plugin.Executor.report_job_error = report_job_error


def _is_queued(job: str) -> bool:
    """Whether SLURM's controller has a job that may still run; also where it cannot be asked."""
    done = _ran("squeue", "-h", "-j", job, "-o", "%T")
    if done is None or done.returncode != 0:
        return done is None or "Invalid job id" not in done.stderr
    # One whose node is gone may be COMPLETING for ever.
    return any(state != "COMPLETING" for state in done.stdout.split())


def _said(*command: str) -> str:
    """What a command of SLURM's writes, to whichever stream; nothing if it does not end within a minute."""
    done = _ran(*command)
    return done.stdout + done.stderr if done else ""


def _succeeds(*command: str) -> bool:
    """Whether a command of SLURM's did what it was asked for."""
    done = _ran(*command)
    return done is not None and done.returncode == 0


def _ran(*command: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
