"""The evaluation job: every kept state of a run, every model the method has, every client, every metric.

Beside the metrics it keeps what each model predicted for each sample, in the state where the model was best: enough
for reliability diagrams and for the uncertainty of right and wrong predictions, without the network. Where there is
nothing to classify, errors of estimates take the place of the metrics and no prediction is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedbayes.bayes.uncertainty import PARTS
from fedbayes.config import Execution
from fedbayes.evaluation.estimates import estimated
from fedbayes.evaluation.evaluate import Predictions, Scored, predict_all, scored
from fedbayes.federation import trees
from fedbayes.federation.loop import Federation, State, start
from fedbayes.federation.protocols import own_state
from fedbayes.io import EVALUATION_COLUMNS, TRAITS, followed_model, read_state, write_columns, write_rows
from fedbayes.plan import Run
from fedbayes.runs.assemble import assemble

# What is kept of a run that predicts nothing: no row, but the columns.
NO_PREDICTIONS = Predictions(torch.zeros(0, 1), torch.zeros(0).long(), torch.zeros(0).long(), torch.zeros(0, 0))


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
) -> None:
    """Test the states a run kept.

    Writes `evaluation.parquet`, one row a client, model, state and metric, and `predictions.parquet`, one row a client,
    model and sample.
    """
    federation = assemble(run.spec, dataset_folder, split_file, split_sha256, execution, shift_file)
    rows: list[list[Any]] = []
    samples: list[dict[str, Any]] = []
    states, sizes = _states(read_state(state_file)), federation.data.test.sizes.tolist()
    for name, tensors in sorted(states.items()):
        state = trees.rebuild(start(federation), tensors)
        if federation.data.truth is not None:
            for model, found in estimated(federation, state).items():
                each = [found.samples // len(found.clients)] * len(found.clients)
                rows += _rows(name, int(state.round), model, {"clean": found}, each)
            continue
        for model, predictions in predict_all(federation, state).items():
            rows += _rows(name, int(state.round), model, scored(federation, model, predictions), sizes)
            if name == best_state(model, states):
                samples.append(_samples(federation, name, model, predictions))
        rows += _traits(federation, name, state)
    write_rows(target, EVALUATION_COLUMNS, rows)
    write_columns(samples_target, samples or [_samples(federation, "last", "pm", NO_PREDICTIONS)])


def best_state(model: str, states: Iterable[str]) -> str:
    """The state in which a model was best: its own best one, or the last where it was not followed over the rounds."""
    best = f"best-{followed_model(model)}"
    return best if best in states else "last"


def _samples(federation: Federation, state: str, model: str, predictions: Predictions) -> dict[str, Any]:
    """Columns of `predictions.parquet`, samples in the order of each client's test set.

    The parts of the uncertainty are NaN where a model predicts by one draw.
    """
    confidence, predicted = predictions.probs.max(1)
    nobodys = model == "gm" and federation.data.whole is not None
    new = torch.isin(predictions.clients, torch.tensor(federation.newcomers, device=predictions.clients.device))
    unknown = confidence.new_full((len(confidence), len(PARTS)), torch.nan)
    parts = predictions.uncertainty if predictions.uncertainty.shape[1] else unknown
    return {
        "state": [state] * len(confidence),
        "model": [model] * len(confidence),
        "condition": ["new" if flag and not nobodys else "clean" for flag in new.tolist()],
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


def _rows(
    state: str, round_: int, model: str, by_condition: Mapping[str, Scored], sizes: Sequence[int]
) -> list[list[Any]]:
    """Pooled values under client -1, then each client's own, who has as many samples as `sizes` says."""
    rows: list[list[Any]] = []
    for condition, (clients, samples, metrics) in by_condition.items():
        for metric, score in metrics.items():
            rows.append([state, round_, model, condition, -1, samples, metric, score.pooled])
            for client, value in zip(clients, score.clients, strict=True):
                rows.append([state, round_, model, condition, client, sizes[client], metric, value])
    return rows
