"""The training job: rounds, tests on the protocol's schedule, checkpoints, and four files at the end."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedbayes.commit import commit
from fedbayes.config import Execution
from fedbayes.evaluation.estimates import estimated
from fedbayes.evaluation.evaluate import TRAINING, Scored, predict_followed, scored, scored_on_training
from fedbayes.federation import checkpoint, trees
from fedbayes.federation.loop import Federation, Report, State, rounds, start
from fedbayes.federation.protocols import own_state
from fedbayes.io import ROUNDS_COLUMNS, VISITS_COLUMNS, write_json, write_rows, write_state
from fedbayes.plan import Run
from fedbayes.preemption import back_into_queue
from fedbayes.runs import provenance
from fedbayes.runs.assemble import assemble
from fedbayes.runs.memory import shown_memory
from fedbayes.runs.ownership import Owner
from fedbayes.runs.stopping import Stopped, StopSign
from fedbayes.tensors import exact

LOG = logging.getLogger("fedbayes")


@dataclass
class Progress:
    """What a run has gathered so far besides its state; kept in every checkpoint."""

    rows: list[list[Any]] = field(default_factory=list)  # rounds.parquet
    visits: list[list[Any]] = field(default_factory=list)  # visits.parquet
    best: dict[str, tuple[float, int]] = field(default_factory=dict)  # model: best accuracy in the window, its round
    started: float = 0.0
    seconds: float = 0.0  # at work, pauses between a kill and a restart left out
    round_ended: list[float] = field(default_factory=list)
    round_seconds: list[float] = field(default_factory=list)  # of training alone
    floats: dict[str, int] = field(default_factory=dict)
    gradients: float = 0.0  # worked out by a client in all rounds so far, each round's mean over those that trained
    steps: list[float] = field(default_factory=list)  # taken by a client in each phase of its visits, likewise
    diverged: dict[str, Any] | None = None  # round and reason, where the loss stopped being a number


def train(
    run: Run,
    code: str,
    dataset_folder: Path,
    split_file: Path,
    split_sha256: str | None,
    target: Path,
    execution: Execution,
    show: Callable[[str], None],
    shift_file: Path | None = None,
    start_file: Path | None = None,
    stop: StopSign | None = None,
) -> None:
    """Train a run and write `state.safetensors`, `rounds.parquet`, `visits.parquet` and `run.json` into `target`.

    Args:
        run: what to train.
        code: digest of the code that makes its numbers; a checkpoint of other code is not used.
        dataset_folder: arrays written by `fetch`.
        split_file: index arrays written by `partition`.
        split_sha256: digest the split must have; None for a user's own.
        target: the run's folder; checkpoints are kept below it until the run is finished.
        execution: device, lifting, checkpoints.
        show: called with a line for people now and then.
        shift_file: samples written by `corrupt`; None for a run without a shift.
        start_file: state of the run whose global weights this one begins with; None for initial ones.
        stop: tells when to end early, with a checkpoint; None: never.
    """
    federation = assemble(run.spec, dataset_folder, split_file, split_sha256, execution, shift_file, start_file)
    data = {"dataset": provenance.dataset_record(dataset_folder), "split": provenance.split_record(split_file)}
    if shift_file is not None:
        data["shift"] = provenance.shift_record(shift_file)
    if start_file is not None:
        data["start"] = provenance.start_record(start_file)
    identity = {
        "run": run.id,
        "code": code,
        **{name: record["sha256"] for name, record in data.items()},
        "lifting": str(federation.lifting),
        "device": federation.data.device.type,
        "torch": torch.__version__,
    }
    session = _Session(run, federation, target, identity, execution, show, stop or StopSign())
    session.run_to_end()
    session.owner.check()
    write_state(target / "state.safetensors", session.saved_states(), f"run {run.id}, code {code}")
    write_rows(target / "rounds.parquet", ROUNDS_COLUMNS, session.progress.rows)
    write_rows(target / "visits.parquet", VISITS_COLUMNS, session.progress.visits)
    write_json(target / "run.json", session.record(code, data))
    session.owner.clear()


class _Session:
    """A run under way: its state, what it has gathered, and the states it keeps."""

    def __init__(
        self,
        run: Run,
        federation: Federation,
        target: Path,
        identity: dict[str, str],
        execution: Execution,
        show: Callable[[str], None],
        stop: StopSign,
    ) -> None:
        self.run, self.federation, self.identity, self.show, self.stop = run, federation, identity, show, stop
        self.folder, self.interval = target / "checkpoint", execution.checkpoint_seconds
        self.owner = Owner(self.folder)
        self.state: State = start(federation)
        # Besides the last: the best of the window by model, and those of the rounds that the protocol keeps.
        self.kept_states: dict[str, dict[str, Tensor]] = {}
        self.progress = Progress(started=time.time())
        self.last_round: int = run.spec["training"]["rounds"]
        self._resume()
        self.began_at = self.done

    def run_to_end(self) -> None:
        """All rounds that are left, with a checkpoint every so often and one where a request to stop comes first."""
        try:
            self._train()
        except Stopped:
            self._checkpoint()
            LOG.warning("stopped by %s after round %d of %d", self.stop.asked, self.done, self.last_round)
            if said := back_into_queue(got_on=self.done > self.began_at):
                LOG.warning("%s", said)
            sys.exit(f"fedbayes: stopped by {self.stop.asked} after round {self.done}; a new start goes on from there")

    def _train(self) -> None:
        self._give_notice()
        if not self.progress.rows:
            self._keep()
            self._test(self.models)
        LOG.info("run %s, %s, from round %d of %d", self.run.id, self.federation.lifting, self.done, self.last_round)
        began, before, saved, shown = time.monotonic(), self.progress.seconds, time.monotonic(), 0.0
        warm, warm_at = began, self.done
        round_began = began
        for state, report in self._rounds():
            self.state = state
            self._keep()
            loss = self._note(report)
            self.progress.round_seconds.append(round(time.monotonic() - round_began, 6))
            if not math.isfinite(loss):
                self._stop_diverged(loss)
                break
            tested = self._test(self._due(self.done))
            now = time.monotonic()
            self.progress.seconds = before + now - began
            self.progress.round_ended.append(time.time())
            line = self._line(loss, tested, now - round_began, (now - warm) / (self.done - warm_at))
            if warm == began:
                # The first round may compile: what is left is judged by the rounds after it.
                warm, warm_at = now, self.done
            for_people = now - shown >= _pause(now - began) or self.done == self.last_round
            LOG.log(logging.INFO if for_people else logging.DEBUG, line)
            if for_people:
                self.show(line)
                shown = now
            if now - saved >= self.interval and self.done < self.last_round:
                self._checkpoint()
                saved = time.monotonic()
            round_began = time.monotonic()

    def _rounds(self) -> Iterator[tuple[State, Report]]:
        """Rounds that are left; a request to stop cuts the one under way short."""
        under_way = rounds(self.federation, self.state, self.last_round)
        while self.done < self.last_round:
            with self.stop.cutting_short():
                completed = next(under_way)
            yield completed

    def _give_notice(self) -> None:
        """What the method says of its cost, before anything is worked out."""
        federation = self.federation
        if federation.method.notice is None:
            return
        training = federation.clients_per_round if federation.trains == "selected" else len(federation.trained)
        sizes, tests = federation.data.train.sizes, federation.data.test.sizes
        line = f"run {self.run.id}: {federation.method.notice(sizes, tests, training)}"
        LOG.info(line)
        self.show(line)

    def _stop_diverged(self, loss: float) -> None:
        """End a run whose loss is NaN or infinite: a result like any other, as the papers print such rows.

        The model stays what it is, so its test values stand for all rounds that are left.
        """
        at = self.done
        self.progress.diverged = {"round": at, "reason": f"the training loss is {loss}"}
        self.show(f"run {self.run.id} diverged at round {at}: the training loss is {loss}")
        LOG.warning("diverged at round %d: the training loss is %s", at, loss)
        self._test(self.models)
        tested = [row for row in self.progress.rows if row[0] == at and row[1] != "train"]
        later = [(r, self._due(r)) for r in range(at + 1, self.last_round + 1)]
        self.progress.rows += [[r, *row[1:]] for r, due in later for row in tested if row[1] in due]

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are tested during training."""
        return tuple(self.run.spec["protocol"]["models"])

    @property
    def done(self) -> int:
        """Rounds completed."""
        return int(self.state.round)

    def saved_states(self) -> dict[str, Tensor]:
        """The last state, the best ones of the window and those of single rounds, as named tensors."""
        return trees.named(self.state, "last") | self._kept_tensors()

    def _kept_tensors(self) -> dict[str, Tensor]:
        return {f"{name}/{key}": t for name, tensors in self.kept_states.items() for key, t in tensors.items()}

    def _keep(self) -> None:
        """Keep the present state if the protocol asks for this round's."""
        if self.done in self.run.spec["protocol"].get("keep", ()):
            self.kept_states[f"round-{self.done}"] = trees.named(self.state)

    def record(self, code: str, data: dict[str, Any]) -> dict[str, Any]:
        """Everything about the run that is not a tensor or a row: `run.json`."""
        return {
            "run": self.run.id,
            "spec": self.run.spec,
            "code": code,
            "outcome": "diverged" if self.progress.diverged else "finished",
            "diverged": self.progress.diverged,
            **data,
            "lift": self.federation.lifting.kind,
            "compiled": self.federation.lifting.compiled,
            "versions": provenance.versions(),
            "commit": commit(),
            "hardware": provenance.hardware(self.federation.data.device),
            "best_round": {model: at for model, (_, at) in self.progress.best.items()},
            "seconds": round(self.progress.seconds, 3),
            "started": self.progress.started,
            "round_ended": self.progress.round_ended,
            "round_seconds": self.progress.round_seconds,
            "floats": self.progress.floats,
            "gradients": self.progress.gradients / max(self.done, 1),
            "steps": [taken / self.done for taken in self.progress.steps],
        }

    def _due(self, round_: int) -> tuple[str, ...]:
        """The models that are tested after a round; personal ones may have a schedule of their own."""
        protocol = self.run.spec["protocol"]
        every = {"pm": protocol.get("pm_every", protocol["every"])}
        return tuple(
            model
            for model in self.models
            if round_ % every.get(model, protocol["every"]) == 0 or round_ == self.last_round
        )

    def _note(self, report: Report) -> float:
        """Keep what a round reports, as means over the clients that trained; returns the training loss.

        What the method wants of every visit is kept one by one as well, but not of replicates: their visits would be
        by far the largest part of a run.
        """
        means = {name: float(exact(values).mean()) for name, values in report.info.items()}
        self.progress.rows += [[self.done, "train", "clean", "mean", name, mean] for name, mean in means.items()]
        if self.federation.replicates == 1:
            ids = report.ids.tolist()
            for name in self.federation.method.per_visit:
                pairs = zip(ids, exact(report.info[name]).tolist(), strict=True)
                self.progress.visits += [[self.done, client, name, value] for client, value in pairs]
        self.progress.gradients += report.gradients
        # A run that goes on from a checkpoint without them has none to the end.
        before = self.progress.steps if self.done > 1 else [0.0] * len(report.steps)
        self.progress.steps = [taken + more for taken, more in zip(before, report.steps, strict=False)]
        self.progress.floats = {
            "down": report.floats_down,
            "up": report.floats_up,
            "kept": trees.numel(own_state(self.state.clients)) // self.federation.data.population,
        }
        return means["loss"]

    def _test(self, models: Sequence[str]) -> dict[str, float]:
        """Test some models now, keep the best states of the window; returns what a line of progress shows.

        That is pooled accuracy, or the error where there is nothing to classify; such a model has no best state.
        """
        shown: dict[str, float] = {}
        for model, by_condition in self._scored(models).items():
            for condition, (_, _, metrics) in by_condition.items():
                for metric, score in metrics.items():
                    for scope, value in score.scopes(metric).items():
                        self.progress.rows.append([self.done, model, condition, scope, metric, value])
            clean = by_condition["clean"].metrics
            shown[model] = clean["accuracy" if "accuracy" in clean else "error"].pooled
            if "accuracy" in clean:
                self._keep_best(model, shown[model])
        return shown

    def _keep_best(self, model: str, accuracy: float) -> None:
        """Keep the state if it is the best of the window so far."""
        first, last = self.run.spec["protocol"]["window"]
        best = self.progress.best.get(model, (-1.0, -1))[0]
        if first <= self.done <= last and accuracy > best:
            self.progress.best[model] = (accuracy, self.done)
            self.kept_states[f"best-{model}"] = trees.named(self.state)

    def _scored(self, models: Sequence[str]) -> dict[str, dict[str, Scored]]:
        """Metrics of some models, by model and condition."""
        federation, found = self.federation, dict[str, dict[str, Scored]]()
        if federation.data.truth is not None:
            estimates = estimated(federation, self.state) if models else {}
            return {model: {"clean": estimates[model]} for model in models if model in estimates}
        on_training = self.run.spec["protocol"].get("on_training", False)
        for model in models:
            predicted = predict_followed(federation, self.state, model, on_training)
            if not predicted:
                continue
            found[model] = scored(federation, model, predicted[0])
            if on_training:
                found[model][TRAINING] = scored_on_training(federation, predicted[1])
        return found

    def _line(self, loss: float, tested: dict[str, float], seconds: float, pace: float) -> str:
        """`run 8e27.. fedavg on mnist-5k seed 0: round 3/20, loss 0.5120, gm 0.8340, 0.05 s, 512 MB, 1 s left`."""
        accuracies = "".join(f", {model} {value:.4f}" for model, value in tested.items())
        left = pace * (self.last_round - self.done)
        return (
            f"run {self.run.id} {self.run.method} on {self.run.dataset} seed {self.run.spec['seed']}: "
            f"round {self.done}/{self.last_round}, loss {loss:.4f}{accuracies}, "
            f"{seconds:.2f} s, {shown_memory(self.federation.data.device)}, {_duration(left)} left"
        )

    def _checkpoint(self) -> None:
        self.owner.check()
        kept = {f"kept/{name}": tensor for name, tensor in self._kept_tensors().items()}
        tensors = trees.named(self.state, "state") | kept
        checkpoint.save(self.folder, self.done, self.identity, tensors, asdict(self.progress))

    def _resume(self) -> None:
        """Go on from the newest usable checkpoint, if there is one."""
        found = checkpoint.latest(self.folder, self.identity, LOG)
        if found is None:
            return
        tensors, progress = found
        own = {name: t for name, t in tensors.items() if name.startswith("state/")}
        self.state = trees.rebuild(self.state, own, "state")
        for name, tensor in tensors.items():
            if name.startswith("kept/"):
                _, state, key = name.split("/", 2)
                self.kept_states.setdefault(state, {})[key] = tensor
        self.progress = Progress(**progress)
        self.progress.best = {model: (value, at) for model, (value, at) in self.progress.best.items()}
        LOG.info("resumed after round %d", self.done)


def _pause(elapsed: float) -> float:
    """Seconds between two rounds of which people are told: more of them the longer a job runs, at most ten minutes.

    The terminal, SLURM's log and what Snakemake prints of a failed job stay short; the history has every round.
    """
    return min(max(5.0, elapsed / 20), 600.0)


def _duration(seconds: float) -> str:
    """`45 s`, `12 min` or `3.2 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
