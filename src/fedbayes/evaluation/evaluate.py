"""Predictions of a federation's models on the clients' test sets, or their training samples, and their metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedbayes.bayes.calibration import group_mean
from fedbayes.bayes.uncertainty import PARTS, predictive, split_up
from fedbayes.evaluation.metrics import HIGHER_IS_BETTER, METRICS
from fedbayes.federation import rng, trees
from fedbayes.federation.cohort import Guests, Outcome, visit_all
from fedbayes.federation.contract import Model, Visit
from fedbayes.federation.loop import Federation, State, enrol, send
from fedbayes.federation.resident import Shards
from fedbayes.tensors import exact_device

# Test samples of a client predicted at once. A sampled prediction draws its noise per block, so this is numerics.
BLOCK = 500
# Samples of all clients predicted at once, which bounds the memory of a test. It changes no number.
AT_ONCE = 20_000
# The condition of tests on the clients' own training samples.
TRAINING = "train"


class Predictions(NamedTuple):
    """Averaged predictive probabilities of all clients' samples."""

    probs: Tensor  # [sample, class]
    labels: Tensor  # [sample]
    clients: Tensor  # [sample]: whose it is
    uncertainty: Tensor  # [sample, part] by `uncertainty.PARTS`; no columns where a model predicts by one draw
    places: Tensor  # [sample]: where it stands in its dataset


class Scores(NamedTuple):
    """A metric of one model: pooled over all samples, and of each client."""

    pooled: float
    clients: list[float]

    def scopes(self, metric: str) -> dict[str, float]:
        """The pooled value and, where there are clients, their mean, each counting once, and the worst of them."""
        if not self.clients:
            return {"pooled": self.pooled}
        worst = min(self.clients) if metric in HIGHER_IS_BETTER else max(self.clients)
        return {"pooled": self.pooled, "mean": sum(self.clients) / len(self.clients), "worst": worst}


def predict_gm(federation: Federation, state: State, on: Shards | None = None) -> Predictions | None:
    """The global model on every client's test set or on the dataset's own; None where the method has none.

    Args:
        federation: whose data and method.
        state: of the federation.
        on: instead of what the protocol says.
    """
    if federation.method.common is None:
        return None
    shards = on or federation.data.whole or federation.data.test
    model, owners = federation.method.common(state.server), range(len(shards.sizes))
    found = _probabilities(federation, model, owners, False, int(state.round), shards)
    return _gathered(federation, [found], shards, tuple(owners))


def predict_pm(federation: Federation, state: State) -> Predictions:
    """The personal model of each client that trains on its own test set, after the method's `adapt` visit.

    Newcomers are left to `predict_all`: what brings one to its model may take as long as its share of the training.
    """
    return _predict_pm(federation, state, federation.data.test)[0]


def predict_followed(federation: Federation, state: State, model: str, on_training: bool) -> list[Predictions]:
    """The personal (`pm`) or global (`gm`) model on test samples and, if asked for, on the clients' training samples.

    Empty where the method has no such model. Personal models are made once for both.
    """
    data = federation.data
    if model == "pm":
        return _predict_pm(federation, state, data.test, *([data.train] if on_training else []))
    tested = predict_gm(federation, state)
    if tested is None:
        return []
    beside = predict_gm(federation, state, on=data.train) if on_training else None
    return [tested] if beside is None else [tested, beside]


def _predict_pm(federation: Federation, state: State, *shards: Shards) -> list[Predictions]:
    adapt = federation.method.adapt
    only = adapt._replace(end=lambda work: {"pm": adapt.end(work)["pm"]})
    return _predict_visited(federation, state, only, federation.trained, *shards)["pm"]


def predict_all(federation: Federation, state: State) -> dict[str, Predictions]:
    """Every model the method has, newcomers' too: those of `adapt` under their names, `gm` for the global model."""
    found = _predict_tested(federation, state, federation.method.adapt, federation.trained)
    if federation.newcomers:
        new = _predict_newcomers(federation, state)
        found = {name: Predictions(*map(torch.cat, zip(found[name], new[name], strict=True))) for name in found}
    common = predict_gm(federation, state)
    return found if common is None else found | {"gm": common}


def _predict_newcomers(federation: Federation, state: State) -> dict[str, Predictions]:
    """Predictions of clients that join only now, after as many visits as the protocol gives them."""
    ids = torch.tensor(federation.newcomers, device=federation.data.device)
    joined = trees.put(state.clients, ids, enrol(federation, state.server, ids, int(state.round)))
    state = state._replace(clients=joined, seen=state.seen.index_fill(0, ids, 0))
    method = federation.method
    again = method.newcomer._replace(end=lambda work: method.train.end(work)[0])
    for number in range(1, federation.newcomer_visits):
        key = rng.fold(federation.key("adapt"), number)
        for stretch in _stretches(federation.newcomers):
            visited = visit_clients(federation, state, again, stretch, key)
            own = torch.tensor(stretch, device=ids.device)
            clients, seen = trees.put(state.clients, own, visited.out), state.seen.index_add(0, own, visited.taken)
            state = state._replace(clients=clients, seen=seen)
    return _predict_tested(federation, state, method.newcomer, federation.newcomers)


def _predict_tested(
    federation: Federation, state: State, visit: Visit, clients: Sequence[int]
) -> dict[str, Predictions]:
    """Predictions of what a visit at some clients makes on their test sets, by name."""
    found = _predict_visited(federation, state, visit, clients, federation.data.test)
    return {name: tested for name, (tested,) in found.items()}


def _predict_visited(
    federation: Federation, state: State, visit: Visit, clients: Sequence[int], *shards: Shards
) -> dict[str, list[Predictions]]:
    """Predictions of what a visit at some clients makes, by name, for each kind of their samples.

    As many clients as are visited together are predicted together, so that not all models are in memory at once.
    """
    parts: dict[str, list[list[Tensor]]] = {}
    for stretch in _stretches(clients):
        size = federation.lifting.clients_at_once(len(stretch))
        for first in range(0, len(stretch), size):
            # The last group reaches back to be as large as the others: a compiled step serves one number of clients.
            begin = min(first, len(stretch) - size)
            group = stretch[begin : begin + size]
            models_by_name: dict[str, Model] = visit_clients(
                federation, state, visit, group, federation.key("adapt")
            ).out
            for name, models in models_by_name.items():
                for kind, of_kind in zip(parts.setdefault(name, [[] for _ in shards]), shards, strict=True):
                    found = _probabilities(federation, models, group, True, int(state.round), of_kind)
                    kind.append(found[first - begin :])
    return {
        name: [_gathered(federation, found, of_kind, clients) for found, of_kind in zip(kinds, shards, strict=True)]
        for name, kinds in parts.items()
    }


def _stretches(clients: Sequence[int]) -> Iterator[range]:
    """Runs of neighbours among clients in ascending order: their samples lie side by side."""
    first = 0
    for at in range(1, len(clients) + 1):
        if at == len(clients) or clients[at] != clients[at - 1] + 1:
            yield range(clients[first], clients[at - 1] + 1)
            first = at


def visit_clients(federation: Federation, state: State, visit: Visit, clients: range, key: Tensor) -> Outcome:
    """What a visit at some clients gives, stacked; its batches and noise come from `key`."""
    ids = torch.tensor(clients, device=federation.data.device)
    own = slice(clients.start, clients.stop)
    guests = Guests(ids, send(federation, state.server, ids), trees.take(state.clients, own), state.seen[own])
    return visit_all(
        visit,
        guests,
        federation.data,
        federation.feed,
        key,
        int(state.round),
        federation.lifting,
    )


class Scored(NamedTuple):
    """Metrics of one model under a condition; `clients` is empty where the samples are nobody's own."""

    clients: tuple[int, ...]
    samples: int
    metrics: dict[str, Scores]


def scored(federation: Federation, model: str, predictions: Predictions) -> dict[str, Scored]:
    """Every metric of a model, by condition: over the clients of each, or over the dataset's own test part."""
    if model == "gm" and federation.data.whole is not None:
        pooled = {name: Scores(score.pooled, []) for name, score in scores(predictions, (0,)).items()}
        return {"clean": Scored((), len(predictions.labels), pooled)}
    sizes = federation.data.test.sizes.tolist()
    return {
        condition: Scored(clients, sum(sizes[client] for client in clients), scores(predictions, clients))
        for condition, clients in conditions(federation).items()
        if len(of_clients(predictions, clients).labels)
    }


def scored_on_training(federation: Federation, predictions: Predictions) -> Scored:
    """Every metric of a model on the training samples of the clients that train."""
    clients = federation.trained
    samples = int(federation.data.train.sizes[list(clients)].sum())
    return Scored(clients, samples, scores(predictions, clients))


def conditions(federation: Federation) -> dict[str, tuple[int, ...]]:
    """Whose predictions are scored under which name: `clean` for clients that train, `new` for newcomers."""
    new = {"new": federation.newcomers} if federation.newcomers else {}
    return {"clean": federation.trained} | new


def of_clients(predictions: Predictions, clients: Sequence[int]) -> Predictions:
    """The predictions that are about some clients."""
    asked = torch.isin(predictions.clients, torch.tensor(clients, device=predictions.clients.device))
    return Predictions(*(part[asked] for part in predictions))


def scores(predictions: Predictions, clients: Sequence[int]) -> dict[str, Scores]:
    """Every metric, and the parts of the uncertainty, pooled over some clients and for each of them."""
    chosen = torch.tensor(clients, device=predictions.clients.device)
    probs, labels, owners, parts, _ = of_clients(predictions, clients)
    # The place of an owner among the chosen clients, who stand in ascending order.
    own = torch.searchsorted(chosen, owners)
    together = torch.zeros_like(own)
    found = {
        name: Scores(float(metric(probs, labels, together, 1)), metric(probs, labels, own, len(clients)).tolist())
        for name, metric in METRICS.items()
    }
    for name, column in zip(PARTS, parts.unbind(1), strict=False):
        each = group_mean(column, own, len(clients)).tolist()
        found[name] = Scores(float(group_mean(column, together, 1)), each)
    return found


def _probabilities(
    federation: Federation, model: Model, clients: range, stacked: bool, round_: int, shards: Shards
) -> Tensor:
    """Probabilities `[client, largest, class]` of some clients' samples, block by block, clients side by side.

    Behind the classes stand the parts of the uncertainty, where predictions are of several draws.

    Args:
        federation: whose data and method.
        model: one of each of these clients, stacked, or one for all.
        clients: neighbours.
        stacked: which of the two.
        round_: rounds completed.
        shards: whose samples are whose.
    """
    data, largest = federation.data, shards.rows.shape[1]
    at_once = federation.lifting.clients_at_once(len(clients))
    size = min(at_once, max(1, AT_ONCE // min(BLOCK, largest)))
    run = federation.lifting.over(federation.method.predict, (0 if stacked else None, 0, 0))
    ids = torch.tensor(clients, device=data.device)
    keys = rng.fold(federation.key("predict").to(data.device), round_, ids)
    parts = []
    with torch.no_grad():
        for first in range(0, len(clients), size):
            own = trees.take(model, slice(first, first + size)) if stacked else model
            group = clients[first : first + size]
            blocks = []
            for block, begin in enumerate(range(0, largest, BLOCK)):
                x = data.tests(shards, slice(group.start, group.stop), slice(begin, begin + BLOCK))
                drawn = run(own, x, rng.fold(keys[first : first + size], block))
                blocks.append(_together(drawn))
            parts.append(torch.cat(blocks, 1))
    return torch.cat(parts)


def _together(drawn: Tensor) -> Tensor:
    """What draws `[client, draw, sample, class]` predict together, and how uncertain they are."""
    probs = predictive(drawn, draws=1)
    return probs if drawn.shape[1] == 1 else torch.cat([probs, torch.vmap(split_up)(drawn)], -1)


def _gathered(federation: Federation, parts: list[Tensor], shards: Shards, clients: Sequence[int]) -> Predictions:
    """Some clients' predictions one after the other, where metrics can be exact; padding is dropped."""
    data, largest = federation.data, shards.rows.shape[1]
    ids = torch.tensor(clients, device=data.device)
    held = torch.arange(largest, device=data.device) < shards.sizes[ids, None]
    owners = ids[:, None].expand(-1, largest)
    found = torch.cat(parts)[held]
    probs, uncertainty = found[:, : data.classes], found[:, data.classes :]
    rows = shards.rows[ids][held]
    together = Predictions(probs, data.labels[rows], owners[held], uncertainty, data.places[rows])
    return Predictions(*(part.to(exact_device(data.device)) for part in together))
