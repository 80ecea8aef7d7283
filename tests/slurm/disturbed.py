"""A copy of the project with a small paper of its own, and `snakemake --profile slurm` at work in it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from checkout import command, copy_project, snakemake
from cluster import Cluster, wait_for
from fedbayes.attempts import history_of
from fedbayes.plan import Run, load_plan

# FedAvg on 5,000 digits. Not compiled: that takes longer than the run.
# A paper must have printed numbers, so it goes by the name of one that has; none of its cells stands beside them.
PAPER = """
name: pFedBayes
title: A run that is disturbed
citation: "None."
url: https://example.org
experiments:
  long:
    title: A run that is disturbed
    shows: []
    model: {name: mlp, hidden: [100]}
    preprocess: {mean: [0.5], std: [0.5]}
    training: {rounds: ROUNDS, clients_per_round: 10, trains: selected}
    local: {batch: 50, amount: 5, unit: batches, order: cyclic}
    protocol: {models: [gm], every: 100, window: [0, ROUNDS]}
    settings:
      digits:
        title: Digits
        dataset: mnist
        split:
          {rule: pfedbayes, clients: 10, labels_per_client: 5, train_per_class: 50, test_per_class: 9, stratified: true}
    methods:
      FedAvg: {method: fedavg, presets: [paper]}
scales:
  smoke: {seeds: [0], embedded_data: true}
  reduced: {seeds: [0]}
  paper: {seeds: [0]}
"""
EXECUTION = {"compile": False, "checkpoint_seconds": 0.2}
# The profile's own values are for clusters of people; these only make the waiting shorter.
SOON = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "10")


def make_project(folder: Path, rounds: int) -> Path:
    """The project with the paper `faults` alone, its data fetched and dealt."""
    copy_project(folder, "faults")
    (folder / "config/papers/faults.yaml").write_text(PAPER.replace("ROUNDS", str(rounds)))
    configure(folder, execution=EXECUTION)
    snakemake(folder, "--cores", "1", "--until", "partition")
    return folder


def configure(folder: Path, **changes: object) -> None:
    """Set keys of `config/config.yaml`; a mapping is merged."""
    file = folder / "config/config.yaml"
    config = yaml.safe_load(file.read_text())
    for key, value in changes.items():
        config[key] = config[key] | value if isinstance(value, dict) else value
    file.write_text(yaml.safe_dump(config))


def copied(base: Path, target: Path) -> Path:
    """A project of a test's own, with the data of another and without its results."""
    made = (".snakemake", "results", "logs", "benchmarks", "mlflow.db", "mlruns")
    shutil.copytree(base, target, symlinks=True, ignore=shutil.ignore_patterns(*made))
    return target


def run_of(folder: Path, seed: int = 0) -> Run:
    """The run of a seed."""
    return next(iter(load_plan({"papers": ["faults"], "seeds": [seed]}, folder).runs.values()))


@dataclass(frozen=True)
class Frozen:
    """A SLURM job whose training stands still. SLURM thaws what it ends, as it does with any job."""

    job: str
    node: str
    training: psutil.Process

    def pending_signals(self) -> set[int]:
        """Signals that wait for it to go on; none where it has ended."""
        try:
            lines = Path(f"/proc/{self.training.pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return set()
        masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
        return {number for number in range(1, 65) for mask in masks if mask >> (number - 1) & 1}

    def thaw(self) -> None:
        """Let it go on, if it is still there."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.training.resume()


# Of the test under way: what is left of them is ended with it.
STARTED: list[subprocess.Popen[bytes]] = []


def end_all() -> None:
    """End the campaigns of a test, which a failed one leaves behind."""
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _command_line(process: psutil.Process) -> str:
    """What it was called with; nothing where it has ended since it was listed."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _hears_ctrl_c() -> None:
    # What a script starts in the background ignores it, and so would all that is started from there.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Campaign:
    """`snakemake --profile slurm` in a project, on a cluster, in the background."""

    def __init__(self, folder: Path, cluster: Cluster, *arguments: str, seeds: tuple[int, ...] = (0,)) -> None:
        self.folder, self.cluster = folder, cluster
        self.runs = [run_of(folder, seed) for seed in seeds]
        targets = [f"{run.folder}/evaluation.parquet" for run in self.runs]
        configure(folder, seeds=list(seeds))
        self.arguments = ["--profile", "slurm", *SOON, *arguments, "--", *targets]
        self.terminal = folder / "terminal.txt"
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again."""
        words, variables = command(self.folder, *self.arguments, **self.cluster.variables)
        with self.terminal.open("a") as terminal:
            self.process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=variables,
                stdout=terminal,
                stderr=terminal,
                start_new_session=True,
                preexec_fn=_hears_ctrl_c,
            )
        STARTED.append(self.process)

    def again(self) -> None:
        """Start it anew, as a user would after it was killed."""
        snakemake(self.folder, "--unlock")
        self.start()

    def said(self) -> str:
        """What the terminal shows so far."""
        return self.terminal.read_text()

    def folder_of(self, run: Run) -> Path:
        """A run's files."""
        return self.folder / run.folder

    def log_of(self, run: Run, history: bool = False) -> str:
        """The log of a run's training: of its last attempt, or of all."""
        file = self.folder / "logs/train" / run.dataset / run.method / f"{run.id}.log"
        file = history_of(file) if history else file
        return file.read_text() if file.exists() else ""

    def trainings(self, job: str) -> list[psutil.Process]:
        """The processes of a SLURM job that train."""
        return [p for p in self.cluster.processes_of(job) if ".snakemake/scripts/" in _command_line(p)]

    def rounds_done(self, run: Run) -> int:
        """The round of the newest checkpoint; 0 where there is none."""
        return max((int(path.name[6:]) for path in self.folder_of(run).glob("checkpoint/round-*")), default=0)

    def halfway(self) -> Frozen:
        """Wait until the first run has a checkpoint and freeze its training there, so that no fault comes too late."""

        def holds() -> bool:
            assert self.process.poll() is None, self.said()
            return self.rounds_done(self.runs[0]) > 0

        wait_for("training under way", holds, 180)
        ((job, node),) = self.cluster.jobs("RUNNING").items()
        (training,) = self.trainings(job)
        training.suspend()
        return Frozen(job, node, training)

    def succeeds(self, seconds: float = 240) -> None:
        """Wait for the end, which must be a good one."""
        assert self.ends(seconds) == 0, self.said()

    def ends(self, seconds: float = 240) -> int:
        """Wait for the end; returns the exit code. A Snakemake that hangs is ended, and the test fails."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not finished within {seconds:.0f} s:\n{self.said()}") from None

    def kill(self) -> None:
        """SIGKILL Snakemake itself; its jobs are SLURM's and live on."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def submitted(self, rule: str = "train") -> int:
        """How many SLURM jobs of a rule this campaign has submitted."""
        return len(re.findall(rf"has been submitted with SLURM jobid \d+ \(log: .*/rule_{rule}/", self.said()))

    def same_as(self, calm: Path) -> None:
        """Every run has the bytes of the undisturbed one, and nothing half-written is left."""
        run = self.runs[0]
        for name in ("state.safetensors", "rounds.parquet", "visits.parquet"):
            assert (self.folder_of(run) / name).read_bytes() == (calm / run.folder / name).read_bytes(), name
        assert json.loads((self.folder_of(run) / "run.json").read_text())["outcome"] == "finished"
        left = {
            path.name for path in self.folder_of(run).rglob("*") if path.name.startswith(".") or ".part" in path.name
        }
        assert left == set()
