"""How much work a run is, counted in *passes*: one sample through the network once, forwards.

A training step takes three a sample (forwards, and twice that backwards); a test takes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedbayes.config import DatasetFacts
from fedbayes.plan import Plan, Run

PASSES_OF_A_STEP = 3
# Samples a client is taken to have where only the data can tell how many clients there are.
UNKNOWN_SAMPLES = 100


@dataclass(frozen=True)
class Size:
    """How large a split is: clients, samples of all of them together, and whether that is known before it is made.

    `replicates` says how many federations share it, each of which has clients chosen of its own.
    """

    clients: int
    train: float
    test: float
    known: bool = True
    replicates: int = 1


def size_of(plan: Plan, run: Run) -> Size:
    """Size of a run's split: as committed, or as near as the dataset's counts tell."""
    row = plan.committed_splits.get(plan.split_file(run))
    if row:
        found = Size(int(row["clients"]), float(row["train"]), float(row["test"]))
    else:
        found = _size_by_rule(run.split.population, run.spec, plan.datasets[run.dataset])
    return replace(found, replicates=run.split.replicates)


def _size_by_rule(population: int | None, spec: Mapping[str, Any], facts: DatasetFacts) -> Size:
    """Size of a split that is not committed, from the numbers of its rule."""
    # Of a joined split, the clients that train.
    split = spec["split"].get("trained", spec["split"])
    clients = population or facts.users or spec["training"]["clients_per_round"]
    if "train_per_class" in split:
        classes = clients * split["labels_per_client"]
        return Size(clients, classes * split["train_per_class"], classes * split["test_per_class"])
    if "train_per_client" in split:
        return Size(clients, clients * split["train_per_client"], clients * split["test_per_client"])
    counts = facts.counts(split.get("pool", "all"))
    known = population is not None and counts is not None
    samples = sum(counts) if known and counts else UNKNOWN_SAMPLES * clients
    if split.get("samples_per_client"):
        samples = split["samples_per_client"] * clients
    share = split.get("train_share") or 0.8
    return Size(clients, share * samples, (1 - share) * samples, known)


def training_passes(spec: Mapping[str, Any], size: Size) -> float:
    """Passes of all rounds: clients that train, times their steps, times what a step takes."""
    training = spec["training"]
    chosen = training["clients_per_round"] * size.replicates
    clients = size.clients if training["trains"] == "all" else min(chosen, size.clients)
    return float(training["rounds"] * clients * visit_passes(spec, size))


def visit_passes(spec: Mapping[str, Any], size: Size) -> float:
    """Passes of one local visit: the steps of a client of mean size, times what a step takes."""
    local, own = spec["local"], max(size.train / size.clients, 1.0)
    batch = own if local["order"] == "full" else min(local["batch"], own)
    steps = local["amount"] * (1.0 if local["unit"] == "batches" else own / batch)
    return float(steps * batch * PASSES_OF_A_STEP)


def test_passes(spec: Mapping[str, Any], size: Size, whole: float) -> float:
    """Passes of all tests: before the first round, after every n-th, and after the last.

    Personal models may have a schedule of their own; `personal: fine-tuned` adds a local visit of every client, and a
    protocol that tests on training samples, too, adds those of all clients for each model.

    Args:
        spec: the run's specification.
        size: of its split.
        whole: samples of the dataset's own test part, for a global model that is tested there.
    """
    rounds, protocol = spec["training"]["rounds"], spec["protocol"]
    every = {"gm": protocol["every"], "pm": protocol.get("pm_every", protocol["every"])}
    samples = {"gm": whole if protocol.get("gm_tests") == "whole" else size.test, "pm": size.test}
    if protocol.get("personal") == "fine-tuned":
        samples["pm"] += size.clients * visit_passes(spec, size)
    beside = size.train if protocol.get("on_training") else 0.0
    return float(sum((1 + -(-rounds // every[model])) * (samples[model] + beside) for model in protocol["models"]))


def passes(plan: Plan, run: Run) -> float:
    """All passes of a run."""
    size = size_of(plan, run)
    whole = float(sum(plan.datasets[run.dataset].test_per_class or ()))
    return training_passes(run.spec, size) + test_passes(run.spec, size, whole)
