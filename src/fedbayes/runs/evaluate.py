"""The evaluation job: every kept state of a run, every model the method has, every client, every metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedbayes.config import Execution
from fedbayes.evaluation.evaluate import Predictions, predict_all, scored
from fedbayes.federation import trees
from fedbayes.federation.loop import Federation, State, start
from fedbayes.federation.protocols import own_state
from fedbayes.io import EVALUATION_COLUMNS, TRAITS, read_state, write_rows
from fedbayes.plan import Run
from fedbayes.runs.assemble import assemble


def evaluate(
    run: Run,
    state_file: Path,
    dataset_folder: Path,
    split_file: Path,
    split_sha256: str | None,
    target: Path,
    execution: Execution,
    shift_file: Path | None = None,
) -> None:
    """Test the states a run kept and write `evaluation.parquet`, one row a client, model, state and metric."""
    federation = assemble(run.spec, dataset_folder, split_file, split_sha256, execution, shift_file)
    rows: list[list[Any]] = []
    for name, tensors in sorted(_states(read_state(state_file)).items()):
        state = trees.rebuild(start(federation), tensors)
        for model, predictions in predict_all(federation, state).items():
            rows += _rows(federation, name, int(state.round), model, predictions)
        rows += _traits(federation, name, state)
    write_rows(target, EVALUATION_COLUMNS, rows)


def _traits(federation: Federation, name: str, state: State) -> list[list[Any]]:
    """What a method tells of its clients' states: LR-BPFL's ranks, for instance."""
    if federation.method.traits is None:
        return []
    found = torch.vmap(federation.method.traits)(own_state(state.clients))
    return [
        [name, int(state.round), TRAITS, "clean", client, 0, trait, float(values[client])]
        for trait, values in found.items()
        for client in federation.trained
    ]


def _states(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """`last`, `best-pm`, `best-gm`: each with its own tensors."""
    states: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        state, key = name.split("/", 1)
        states.setdefault(state, {})[key] = tensor
    return states


def _rows(federation: Federation, state: str, round_: int, model: str, predictions: Predictions) -> list[list[Any]]:
    """Pooled values under client -1, then each client's own."""
    sizes = federation.data.test.sizes.tolist()
    rows: list[list[Any]] = []
    for condition, (clients, samples, metrics) in scored(federation, model, predictions).items():
        for metric, score in metrics.items():
            rows.append([state, round_, model, condition, -1, samples, metric, score.pooled])
            for client, value in zip(clients, score.clients, strict=True):
                rows.append([state, round_, model, condition, client, sizes[client], metric, value])
    return rows
