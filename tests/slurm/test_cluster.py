"""`snakemake --profile slurm` on a real cluster, undisturbed and under faults: always the bytes of one machine alone.

One file, because one process at a time can have the cluster and tests are shared out by file.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from checkout import command, copy_project, planned, snakemake
from cluster import Cluster, wait_for
from disturbed import Campaign, configure, copied, run_of

# The first test's time includes the wait for the cluster of another session, ten minutes at most.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PAPER, EXPERIMENT = "bpfed", "table2"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One experiment, run by `snakemake --cores 2`."""
    folder = copy_project(tmp_path_factory.mktemp("local"), PAPER)
    configure(folder, experiments=[EXPERIMENT])
    snakemake(folder, "--cores", "2")
    return folder


def test_it_gives_the_same_bytes_as_one_machine(local: Path, tmp_path: Path, cluster: Cluster) -> None:
    folder = copied(local, tmp_path / "project")
    done = snakemake(folder, "--profile", "slurm", **cluster.variables)
    states = sorted(path.relative_to(local) for path in local.glob("results/runs/*/*/*/state.safetensors"))
    assert len(states) >= 2
    for state in states:
        assert (folder / state).read_bytes() == (local / state).read_bytes(), state
    name = f"results/smoke/reproduction/{PAPER}.csv"
    here, there = pd.read_csv(local / name), pd.read_csv(folder / name)
    pd.testing.assert_series_equal(here["ours"], there["ours"])
    # Training and evaluation are SLURM's, with what their rules ask for; all else ran where Snakemake runs.
    submitted = re.findall(r"SLURM jobid (\d+) \(log: .*/rule_(\w+)/", done.stdout + done.stderr)
    assert sorted(rule for _, rule in submitted) == ["evaluate"] * len(states) + ["train"] * len(states)
    asked = cluster.run("sacct", "-n", "-X", "-P", "-j", submitted[0][0], "-o", "State,ReqCPUS,ReqMem,Timelimit").stdout
    assert asked.strip() == "COMPLETED|1|3000M|01:00:00"
    assert planned(folder) == {}, "nothing is left to do"


@pytest.fixture
def project(calm: Path, tmp_path: Path) -> Path:
    """A project of the test's own, with data and without results."""
    return copied(calm, tmp_path / "project")


def queued_again(cluster: Cluster, job: str) -> None:
    """Wait until SLURM has put a job back into its queue, and let it start."""
    wait_for("the job is in the queue again", lambda: job in cluster.jobs("PENDING"), 120)
    cluster.start_now(job)


def resumed_after(campaign: Campaign) -> int:
    """The round that the last attempt went on from."""
    found = re.findall(r"resumed after round (\d+)", campaign.log_of(campaign.runs[0]))
    assert found, campaign.log_of(campaign.runs[0])
    return int(found[-1])


def test_a_node_that_crashes(project: Path, calm: Path, cluster: Cluster) -> None:
    """SLURM gives the job to another node, where it goes on from its checkpoint; it asks for a GPU and gets it."""
    campaign = Campaign(project, cluster, "--set-resources", "train:gpu=1")
    frozen = campaign.halfway()
    assert "gres/gpu=1" in cluster.run("squeue", "-h", "-j", frozen.job, "-O", "tres-alloc:80").stdout
    done = campaign.rounds_done(campaign.runs[0])
    cluster.crash_node(frozen.node)
    queued_again(cluster, frozen.job)
    campaign.succeeds()
    campaign.same_as(calm)
    assert resumed_after(campaign) == done > 0
    assert campaign.submitted() == 1, "it is SLURM's requeueing, not a new submission"


def test_a_node_daemon_that_dies_alone(project: Path, calm: Path, cluster: Cluster) -> None:
    """Two writers: the first job lives on while SLURM starts it again; the later one wins and no file is damaged."""
    campaign = Campaign(project, cluster)
    frozen = campaign.halfway()

    def owner() -> str:
        """Who has claimed the run; nobody once it is finished."""
        with contextlib.suppress(FileNotFoundError):
            return (campaign.folder_of(campaign.runs[0]) / "checkpoint/owner").read_text()
        return ""

    first = owner()
    cluster.kill_node_daemon(frozen.node)
    queued_again(cluster, frozen.job)
    wait_for("the second job has started", lambda: owner() != first, 120)
    frozen.thaw()
    campaign.succeeds()
    campaign.same_as(calm)
    with contextlib.suppress(psutil.NoSuchProcess):
        frozen.training.wait(60)
    campaign.same_as(calm)
    history = campaign.log_of(campaign.runs[0], history=True)
    assert history.count("another job has taken over this run since") == 1, "frozen early, it had much left to write"
    assert "Traceback" not in history


def test_two_jobs_on_a_node_have_a_gpu_each(project: Path, cluster: Cluster) -> None:
    """SLURM tells them different numbers while both are at work."""
    one_node = ("--set-resources", "train:gpu=1", f"train:slurm_extra='--nodelist={cluster.nodes[0]}'")
    campaign = Campaign(project, cluster, *one_node, seeds=(0, 1))
    given = dict[str, str]()

    def both_at_work() -> bool:
        assert campaign.process.poll() is None, campaign.said()
        for job in cluster.jobs("RUNNING").keys() - given.keys():
            for training in campaign.trainings(job):
                with contextlib.suppress(psutil.Error):
                    training.suspend()
                    given[job] = training.environ()["CUDA_VISIBLE_DEVICES"]
        return len(given) == 2

    wait_for("two jobs at work on the node", both_at_work, 180)
    assert set(given.values()) == {"0", "1"}
    campaign.kill()


def test_a_job_that_reaches_its_time_limit(project: Path, calm: Path, cluster: Cluster) -> None:
    """Not told in time: SIGTERM, checkpoint, and a second attempt that asks for more time and goes on from there."""
    campaign = Campaign(project, cluster, "--set-resources", "train:runtime=attempt", "train:slurm_extra=''")
    frozen = campaign.halfway()
    done = campaign.rounds_done(campaign.runs[0])
    wait_for("the time limit", lambda: frozen.job not in cluster.jobs("RUNNING", "COMPLETING"), 180)
    campaign.succeeds()
    campaign.same_as(calm)
    assert resumed_after(campaign) >= done > 0
    assert "stopped by SIGTERM after round" in campaign.said(), "the log of a failed attempt is shown"
    assert "SLURM status is: 'TIMEOUT'" in campaign.said() and campaign.submitted() == 2


def test_a_job_whose_time_is_nearly_up(project: Path, calm: Path, cluster: Cluster) -> None:
    """Three minutes before its limit it is told, keeps a checkpoint and goes back into the queue: no attempt is lost.

    SLURM may say so another minute earlier, hence five minutes. The time limit stays what it is. The command line's
    default resources take the place of the profile's, and the signal is still asked for.
    """
    shorter = ("--default-resources", "mem_mb=2000", "runtime=60", "--set-resources", "train:runtime=5")
    campaign = Campaign(project, cluster, *shorter)
    frozen = campaign.halfway()
    done = campaign.rounds_done(campaign.runs[0])
    # A frozen process learns of a signal when it goes on; SLURM may have thawed it.
    wait_for("the signal", lambda: 15 in frozen.pending_signals() or frozen.job in cluster.jobs("PENDING"), 180)
    frozen.thaw()
    queued_again(cluster, frozen.job)
    campaign.succeeds()
    campaign.same_as(calm)
    assert resumed_after(campaign) >= done > 0 and campaign.submitted() == 1


def test_a_job_that_makes_room_for_a_more_urgent_one(project: Path, calm: Path, cluster: Cluster) -> None:
    """Preemption: SIGTERM, checkpoint, back into the queue under the same id, and on from there."""
    campaign = Campaign(project, cluster)
    frozen = campaign.halfway()
    done = campaign.rounds_done(campaign.runs[0])
    everything = ("-p", "urgent", "-N", str(len(cluster.nodes)), "--exclusive", "--wrap", "sleep 1")
    cluster.run("sbatch", "--output=/dev/null", *everything)
    # Some versions of SLURM thaw what they ask to go, and a second later it is gone; others do so after its grace only.
    shown = ("scontrol", "show", "job", frozen.job)
    wait_for(
        "the job is asked to go",
        lambda: "PreemptTime=2" in cluster.run(*shown).stdout or frozen.job in cluster.jobs("PENDING"),
        180,
    )
    frozen.thaw()
    queued_again(cluster, frozen.job)
    campaign.succeeds()
    campaign.same_as(calm)
    assert resumed_after(campaign) >= done > 0 and campaign.submitted() == 1


def test_a_job_that_needs_more_memory_than_it_asked_for(project: Path, calm: Path, cluster: Cluster) -> None:
    """SLURM kills the first attempt; the second asks for more and succeeds."""
    campaign = Campaign(project, cluster, "--set-resources", "train:mem_mb=200 if attempt == 1 else 3000")
    campaign.succeeds()
    campaign.same_as(calm)
    assert campaign.submitted() == 2 and "SLURM's log says: killed: out of memory" in campaign.said()


def test_a_job_that_fails_three_times(project: Path, cluster: Cluster) -> None:
    """Never enough memory for one run: it ends with a message that says so; the other run is finished all the same."""
    needy, other = (run_of(project, seed) for seed in (0, 1))
    little = f"train:mem_mb=200 if wildcards.run == '{needy.id}' else 3000"
    campaign = Campaign(project, cluster, "--set-resources", little, seeds=(0, 1))
    assert campaign.ends() != 0
    assert (project / other.folder / "evaluation.parquet").exists()
    assert not (project / needy.folder / "run.json").exists()
    assert campaign.submitted() == 4, "three attempts at one run and one at the other"
    assert campaign.said().count("SLURM's log says: killed: out of memory") == 3, "the reason stands on the terminal"
    _, variables = command(project, **cluster.variables)
    status = subprocess.run(
        [sys.executable, "-m", "fedbayes.status"],
        cwd=project,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert needy.id in status and "killed: out of memory" in status and "--profile slurm" in status


def test_a_controller_that_is_down_for_half_a_minute(project: Path, calm: Path, cluster: Cluster) -> None:
    """Jobs go on without it, Snakemake waits for it, and no attempt is lost."""
    campaign = Campaign(project, cluster)
    frozen = campaign.halfway()
    cluster.stop_controller()
    frozen.thaw()
    time.sleep(30)
    assert campaign.process.poll() is None, campaign.said()
    cluster.start_controller()
    campaign.succeeds()
    campaign.same_as(calm)
    assert campaign.submitted() == 1 and campaign.submitted("evaluate") == 1


def test_a_controller_that_is_down_when_jobs_are_to_be_submitted(project: Path, calm: Path, cluster: Cluster) -> None:
    """Nothing is submitted before it is back, and no attempt is lost."""
    cluster.stop_controller()
    campaign = Campaign(project, cluster)
    wait_for("somebody waits for it", lambda: "SLURM's controller does not answer" in campaign.said(), 120)
    assert campaign.submitted() == 0
    cluster.start_controller()
    campaign.succeeds()
    campaign.same_as(calm)
    assert "SLURM's controller answers again after" in campaign.said() and campaign.submitted() == 1


def test_job_states_that_cannot_be_asked_for(project: Path, calm: Path, cluster: Cluster) -> None:
    """The executor alone would forget its jobs and wait for ever. Now it asks again, and ends beyond its patience.

    Started again once the cluster answers, the campaign goes on.
    """
    configure(project, execution={"slurm_patience_seconds": 12})
    campaign = Campaign(project, cluster)
    frozen = campaign.halfway()
    cluster.stop_database_daemon()
    wait_for("the silence is noticed", lambda: "does not answer (sacct fails)" in campaign.said(), 200)
    cluster.start_database_daemon()
    wait_for("the answer is noticed", lambda: "answers again after" in campaign.said(), 200)
    cluster.stop_database_daemon()
    assert campaign.ends(300) != 0
    assert "has not answered for" in campaign.said() and "execution.slurm_patience_seconds = 12" in campaign.said()
    assert frozen.job in cluster.jobs("RUNNING"), "jobs go on"
    cluster.start_database_daemon()
    campaign.again()
    campaign.succeeds()
    campaign.same_as(calm)


def test_snakemake_itself_is_killed_and_started_again(project: Path, calm: Path, cluster: Cluster) -> None:
    """Its job lives on until the new Snakemake cancels it; another one goes on from its checkpoint."""
    campaign = Campaign(project, cluster)
    frozen = campaign.halfway()
    campaign.kill()
    time.sleep(2)
    assert frozen.job in cluster.jobs("RUNNING")
    campaign.again()
    campaign.succeeds()
    campaign.same_as(calm)
    assert resumed_after(campaign) > 0 and not cluster.jobs("RUNNING", "PENDING", "COMPLETING")


def test_ctrl_c(project: Path, calm: Path, cluster: Cluster) -> None:
    """Snakemake cancels its jobs, which keep a checkpoint; the same command goes on, without unlocking."""
    campaign = Campaign(project, cluster)
    frozen = campaign.halfway()
    campaign.interrupt()
    assert campaign.ends(90) != 0
    wait_for("the job has ended", lambda: frozen.job not in cluster.jobs("RUNNING", "COMPLETING"), 60)
    campaign.start()
    campaign.succeeds()
    campaign.same_as(calm)
    assert resumed_after(campaign) > 0


def test_a_job_that_somebody_cancels(project: Path, calm: Path, cluster: Cluster) -> None:
    """`CANCELLED by 0` is a failure like any other: the next attempt goes on from the checkpoint."""
    campaign = Campaign(project, cluster)
    frozen = campaign.halfway()
    cluster.run("scancel", frozen.job)
    campaign.succeeds()
    campaign.same_as(calm)
    assert campaign.submitted() == 2 and resumed_after(campaign) > 0
