"""The evaluation job: every kept state of a run, every model the method has, every client, every metric.

Beside the metrics it keeps what each model predicted for each sample, in the state where the model was best: enough
for reliability diagrams and for the uncertainty of right and wrong predictions, without the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedbayes.bayes.uncertainty import PARTS
from fedbayes.config import Execution
from fedbayes.data import wakeword
from fedbayes.data.fetch import load
from fedbayes.data.splits import read_split_of
from fedbayes.evaluation.evaluate import Predictions, predict_all, scored
from fedbayes.federation import trees
from fedbayes.federation.loop import Federation, State, start
from fedbayes.federation.protocols import own_state
from fedbayes.io import EVALUATION_COLUMNS, TRAITS, followed_model, read_state, write_columns, write_rows
from fedbayes.plan import Run
from fedbayes.runs.assemble import assemble


def evaluate(
    run: Run,
    state_file: Path,
    dataset_folder: Path,
    split_file: Path,
    split_sha256: str | None,
    target: Path,
    samples_target: Path,
    execution: Execution,
    shift_file: Path | None = None,
    start_file: Path | None = None,
) -> None:
    """Test the states a run kept.

    Writes `evaluation.parquet`, one row a client, model, state and metric, and `predictions.parquet`, one row a client,
    model and sample.
    """
    federation = assemble(run.spec, dataset_folder, split_file, split_sha256, execution, shift_file, start_file)
    groups = groups_of_tests(dataset_folder, split_file)
    rows: list[list[Any]] = []
    samples: list[dict[str, Any]] = []
    states = _states(read_state(state_file))
    for name, tensors in sorted(states.items()):
        state = trees.rebuild(start(federation), tensors)
        for model, predictions in predict_all(federation, state).items():
            rows += _rows(federation, name, int(state.round), model, predictions)
            if name == best_state(model, states):
                samples.append(_samples(federation, name, model, predictions, groups))
        rows += _traits(federation, name, state)
    write_rows(target, EVALUATION_COLUMNS, rows)
    write_columns(samples_target, samples)


def best_state(model: str, states: Iterable[str]) -> str:
    """The state in which a model was best: its own best one, or the last where it was not followed over the rounds."""
    best = f"best-{followed_model(model)}"
    return best if best in states else "last"


def groups_of_tests(dataset_folder: Path, split_file: Path) -> list[list[str]] | None:
    """The group of every test sample of every client, such as `normal-A`; None where the dataset has no groups."""
    dataset = load(dataset_folder)
    names = wakeword.groups(dataset.tables)
    if names is None:
        return None
    return [[names[row] for row in own] for own in read_split_of(dataset, split_file).test]


def _samples(
    federation: Federation, state: str, model: str, predictions: Predictions, groups: list[list[str]] | None
) -> dict[str, Any]:
    """Columns of `predictions.parquet`, samples in the order of each client's test set.

    The parts of the uncertainty are NaN where a model predicts by one draw; the group is empty where samples have none.
    """
    confidence, predicted = predictions.probs.max(1)
    nobodys = model == "gm" and federation.data.whole is not None
    new = torch.isin(predictions.clients, torch.tensor(federation.newcomers, device=predictions.clients.device))
    unknown = confidence.new_full((len(confidence), len(PARTS)), torch.nan)
    parts = predictions.uncertainty if predictions.uncertainty.shape[1] else unknown
    own = [""] * len(confidence)
    if groups is not None and not nobodys:
        own = [name for client in dict.fromkeys(predictions.clients.tolist()) for name in groups[client]]
    return {
        "state": [state] * len(confidence),
        "model": [model] * len(confidence),
        "condition": ["new" if flag and not nobodys else "clean" for flag in new.tolist()],
        "group": own,
        "client": (torch.full_like(predictions.clients, -1) if nobodys else predictions.clients).int(),
        "label": predictions.labels.short(),
        "predicted": predicted.short(),
        "confidence": confidence.float(),
        **{name: column.float() for name, column in zip(PARTS, parts.unbind(1), strict=True)},
    }


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
