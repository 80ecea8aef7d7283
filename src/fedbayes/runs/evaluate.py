"""The evaluation job: every kept state of a run, every model the method has, every client, every metric.

A global model may be shown outsiders, too: samples of classes it does not know. Beside the metrics the job keeps what
each model predicted for each sample, in the state where the model was best: enough for reliability diagrams and for the
uncertainty of right, wrong and unknown samples, without the network. Where there is nothing to classify, errors of
estimates take the place of the metrics and no prediction is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedbayes.bayes.uncertainty import PARTS
from fedbayes.config import Execution
from fedbayes.data import wakeword
from fedbayes.data.fetch import load
from fedbayes.data.outsiders import outsiders
from fedbayes.evaluation.doubt import by_resemblance, outsiders_from_known, wrong_from_right
from fedbayes.evaluation.estimates import estimated
from fedbayes.evaluation.evaluate import Predictions, Scored, of_clients, predict_all, predict_gm, scored, scores
from fedbayes.evaluation.held import model_size
from fedbayes.federation import trees
from fedbayes.federation.loop import Federation, State, start
from fedbayes.federation.protocols import own_state
from fedbayes.federation.resident import lay_out_beside
from fedbayes.io import COST, EVALUATION_COLUMNS, TRAITS, followed_model, read_state, write_columns, write_rows
from fedbayes.plan import Run
from fedbayes.runs.assemble import assemble
from fedbayes.runs.memory import shown_memory

LOG = logging.getLogger("fedbayes")

# What the log says of a model: the one or the other, by whether there is something to classify.
HEADLINES = ("accuracy", "error")
# What is kept of a run that predicts nothing: no row, but the columns.
NONE = torch.zeros(0).long()
NO_PREDICTIONS = Predictions(torch.zeros(0, 2), NONE, NONE, torch.zeros(0, 0), NONE)


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
    outsiders_folder: Path | None = None,
    start_file: Path | None = None,
) -> None:
    """Test the states a run kept.

    Writes `evaluation.parquet`, one row a client, model, state and metric, and `predictions.parquet`, one row a client,
    model and sample. With `outsiders_folder`, a fetched dataset, the global model is shown its test part, too.
    """
    federation = assemble(run.spec, dataset_folder, split_file, split_sha256, execution, shift_file, start_file)
    outside = _outside(federation, outsiders_folder, dataset_folder) if outsiders_folder else None
    groups = wakeword.groups(load(dataset_folder).tables)
    rows: list[list[Any]] = []
    samples: list[dict[str, Any]] = []
    states = _states(read_state(state_file))
    # The best round may be the last one, or that of another model: what is the same is tested once.
    by_round: dict[int, _Tested] = {}
    for name, tensors in sorted(states.items()):
        state = trees.rebuild(start(federation), tensors)
        round_ = int(state.round)
        if federation.data.truth is not None:
            rows += _told(run, federation, _estimate_rows(federation, name, state))
            continue
        if round_ not in by_round:
            by_round[round_] = _test(federation, state, outside)
        tested = by_round[round_]
        for model, predictions in tested.models.items():
            rows += _told(run, federation, _rows(federation, name, round_, model, predictions))
            # What is relative to another run is worked out from samples, of the last state, too.
            if name == best_state(model, states) or (name == "last" and groups is not None):
                samples.append(_samples(federation, name, model, predictions, groups))
        rows += _traits(federation, name, state)
        if name == "last":
            size = float(model_size(federation, state))
            rows.append([name, int(state.round), COST, "clean", -1, 0, "weights", size])
        if tested.local:
            rows += _local_rows(federation, name, round_, tested.local)
        if outside and tested.strange:
            by_condition = by_resemblance(tested.strange, outside.resembles)
            rows += _outsider_rows(name, round_, tested.models["gm"], by_condition)
            if name == best_state("gm", states):
                samples.append(_outsider_samples(federation, name, tested.strange, outside.resembles))
    write_rows(target, EVALUATION_COLUMNS, rows)
    write_columns(samples_target, samples or [_samples(federation, "last", "pm", NO_PREDICTIONS, None)])


def _told(run: Run, federation: Federation, rows: list[list[Any]]) -> list[list[Any]]:
    """Some rows, after a line for each model in the log: `run 8e27..: state last of round 9, gm accuracy 0.8, 9 MB`."""
    for state, round_, model, condition, client, _, metric, value in rows:
        if condition == "clean" and client == -1 and metric in HEADLINES:
            memory = shown_memory(federation.data.device)
            LOG.info(
                "run %s: state %s of round %d, %s %s %.4f, %s", run.id, state, round_, model, metric, value, memory
            )
    return rows


class _Outside(NamedTuple):
    """A federation whose test part are outsiders, and which of them resemble a known class."""

    federation: Federation
    resembles: Tensor


def _outside(federation: Federation, folder: Path, trained_on: Path) -> _Outside:
    found = outsiders(folder, trained_on)
    data = lay_out_beside(federation.data, found.inputs, found.labels, found.places)
    return _Outside(replace(federation, data=data), torch.from_numpy(found.resembles).to(data.device))


class _Tested(NamedTuple):
    """What a state predicts: its models, and its global model where it is shown more than the protocol asks for."""

    models: dict[str, Predictions]
    local: Predictions | None  # on the clients' test sets, where the protocol tests it on the dataset's own
    strange: Predictions | None  # on outsiders


def _test(federation: Federation, state: State, outside: _Outside | None) -> _Tested:
    data = federation.data
    local = predict_gm(federation, state, on=data.test) if data.whole is not None else None
    strange = predict_gm(outside.federation, state) if outside else None
    return _Tested(predict_all(federation, state), local, strange)


def best_state(model: str, states: Iterable[str]) -> str:
    """The state in which a model was best: its own best one, or the last where it was not followed over the rounds."""
    best = f"best-{followed_model(model)}"
    return best if best in states else "last"


def _samples(
    federation: Federation, state: str, model: str, predictions: Predictions, groups: Sequence[str] | None
) -> dict[str, Any]:
    """Columns of `predictions.parquet`, samples in the order of each client's test set.

    The parts of the uncertainty are NaN where a model predicts by one draw; the group is empty where samples have none.
    `groups` has that of every sample of the dataset. The second highest probability is there because one minus the
    highest is 0 for all that a model is very sure of, which then have no order.
    """
    (confidence, runner_up), predicted = _two_highest(predictions.probs)
    nobodys = model == "gm" and federation.data.whole is not None
    new = torch.isin(predictions.clients, torch.tensor(federation.newcomers, device=predictions.clients.device))
    unknown = confidence.new_full((len(confidence), len(PARTS)), torch.nan)
    parts = predictions.uncertainty if predictions.uncertainty.shape[1] else unknown
    return {
        "state": [state] * len(confidence),
        "model": [model] * len(confidence),
        "condition": ["new" if flag and not nobodys else "clean" for flag in new.tolist()],
        "group": ["" if groups is None else groups[row] for row in predictions.places.tolist()],
        "client": (torch.full_like(predictions.clients, -1) if nobodys else predictions.clients).int(),
        "sample": predictions.places.int(),
        "label": predictions.labels.short(),
        "predicted": predicted.short(),
        "confidence": confidence.float(),
        "runner-up": runner_up.float(),
        **{name: column.float() for name, column in zip(PARTS, parts.unbind(1), strict=True)},
        "resembles": torch.zeros_like(new),
    }


def _two_highest(probs: Tensor) -> tuple[Tensor, Tensor]:
    """The two highest probabilities of each sample [2, sample], and the class of the highest [sample]."""
    found = probs.topk(2)
    return found.values.T, found.indices[:, 0]


def _outsider_samples(federation: Federation, state: str, strange: Predictions, resembles: Tensor) -> dict[str, Any]:
    """The same columns of outsiders, which are nobody's; labels are those of their own dataset."""
    columns = _samples(federation, state, "gm", strange, None)
    nobody = torch.full_like(columns["client"], -1)
    return columns | {"condition": ["outsiders"] * len(nobody), "client": nobody, "resembles": resembles}


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
    """Every metric under every condition, and how well the model's doubt tells wrong from right predictions."""
    rows: list[list[Any]] = []
    for condition, found in scored(federation, model, predictions).items():
        rows += _scored_rows([state, round_, model, condition], found, federation.data.test.sizes.tolist())
        own = of_clients(predictions, found.clients) if found.clients else predictions
        rows += [
            [state, round_, model, condition, -1, found.samples, metric, value]
            for metric, value in wrong_from_right(own).items()
        ]
    return rows


def _estimate_rows(federation: Federation, name: str, state: State) -> list[list[Any]]:
    """Errors of estimates, where there is nothing to classify; a repeat stands in the place of a client."""
    rows: list[list[Any]] = []
    for model, found in estimated(federation, state).items():
        each = [found.samples // len(found.clients)] * len(found.clients)
        rows += _scored_rows([name, int(state.round), model, "clean"], found, each)
    return rows


def _local_rows(federation: Federation, state: str, round_: int, predictions: Predictions) -> list[list[Any]]:
    """A global model that is tested on the dataset's own test part, also on the clients' test sets: condition `local`.

    These are what personal models are tested on: to compare them with a global model elsewhere would not be fair.
    """
    clients, sizes = federation.trained, federation.data.test.sizes
    found = Scored(clients, int(sizes[list(clients)].sum()), scores(predictions, clients))
    return _scored_rows([state, round_, "gm", "local"], found, sizes.tolist())


def _scored_rows(head: list[Any], found: Scored, sizes: Sequence[int]) -> list[list[Any]]:
    """Pooled values under client -1, then each client's own, who has as many samples as `sizes` says.

    `head` is state, round, model and condition.
    """
    rows: list[list[Any]] = []
    for metric, score in found.metrics.items():
        rows.append([*head, -1, found.samples, metric, score.pooled])
        for client, value in zip(found.clients, score.clients, strict=True):
            rows.append([*head, client, sizes[client], metric, value])
    return rows


def _outsider_rows(state: str, round_: int, known: Predictions, outside: dict[str, Predictions]) -> list[list[Any]]:
    """How well doubt finds outsiders among the test samples of the known classes, by condition."""
    return [
        [state, round_, "gm", condition, -1, len(own.labels), metric, value]
        for condition, own in outside.items()
        for metric, value in outsiders_from_known(own, known).items()
    ]
