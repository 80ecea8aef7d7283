"""Predictions of a federation's models on the clients' test sets, and their metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fedbayes.evaluation.metrics import HIGHER_IS_BETTER, METRICS
from fedbayes.federation import rng, trees
from fedbayes.federation.cohort import Guests, visit_all
from fedbayes.federation.contract import Model, Visit
from fedbayes.federation.loop import Federation, State, send

# Test samples of a client predicted at once. A sampled prediction draws its noise per block, so this is numerics.
BLOCK = 500
# Samples of all clients predicted at once, which bounds the memory of a test. It changes no number.
AT_ONCE = 20_000


class Predictions(NamedTuple):
    """Averaged predictive probabilities of all clients' test samples."""

    probs: Tensor  # [sample, class]
    labels: Tensor  # [sample]
    clients: Tensor  # [sample]: whose test set it belongs to


class Scores(NamedTuple):
    """A metric of one model: pooled over all samples, and of each client."""

    pooled: float
    clients: list[float]

    def mean(self) -> float:
        """Mean over clients, each counting once."""
        return sum(self.clients) / len(self.clients)

    def worst(self, metric: str) -> float:
        """The worst client's value."""
        return min(self.clients) if metric in HIGHER_IS_BETTER else max(self.clients)


def predict_gm(federation: Federation, state: State) -> Predictions | None:
    """The global model on every client's test set, or None where the method has no global model."""
    if federation.method.common is None:
        return None
    return _predict(federation, federation.method.common(state.server), stacked=False, round_=int(state.round))


def predict_pm(federation: Federation, state: State) -> Predictions:
    """Each client's personal model on its own test set, after the method's `adapt` visit."""
    adapt = federation.method.adapt
    only = adapt._replace(end=lambda work: {"pm": adapt.end(work)["pm"]})
    return _predict(federation, _adapted(federation, state, only)["pm"], stacked=True, round_=int(state.round))


def predict_all(federation: Federation, state: State) -> dict[str, Predictions]:
    """Every model the method has: what `adapt` gives under its names, `gm` for the global model."""
    models, round_ = _adapted(federation, state, federation.method.adapt), int(state.round)
    found = {name: _predict(federation, model, stacked=True, round_=round_) for name, model in models.items()}
    common = predict_gm(federation, state)
    return found if common is None else found | {"gm": common}


def _adapted(federation: Federation, state: State, visit: Visit) -> dict[str, Model]:
    """Models stacked over all clients, after a visit."""
    ids = torch.arange(federation.data.population, device=federation.data.device)
    guests = Guests(ids, send(federation, state.server, ids), state.clients, state.seen)
    adapted = visit_all(
        visit,
        guests,
        federation.data,
        federation.feed,
        federation.key("adapt"),
        int(state.round),
        federation.lifting,
    )
    models: dict[str, Model] = adapted.out
    return models


def conditions(federation: Federation) -> dict[str, tuple[int, ...]]:
    """Whose predictions are scored under which name: `clean` for clients that train, `new` for newcomers."""
    new = {"new": federation.newcomers} if federation.newcomers else {}
    return {"clean": federation.trained} | new


def scores(predictions: Predictions, clients: Sequence[int]) -> dict[str, Scores]:
    """Every metric, pooled over some clients and for each of them."""
    chosen = torch.tensor(clients, device=predictions.clients.device)
    probs, labels, owners = (part[torch.isin(predictions.clients, chosen)] for part in predictions)
    # The place of an owner among the chosen clients, who stand in ascending order.
    own = torch.searchsorted(chosen, owners)
    together = torch.zeros_like(own)
    return {
        name: Scores(float(metric(probs, labels, together, 1)), metric(probs, labels, own, len(clients)).tolist())
        for name, metric in METRICS.items()
    }


def _predict(federation: Federation, model: Model, stacked: bool, round_: int) -> Predictions:
    """Predict block by block, clients side by side; padding is dropped at the end."""
    data, test = federation.data, federation.data.test
    population, largest = test.rows.shape
    size = min(federation.lifting.clients_at_once(population), max(1, AT_ONCE // min(BLOCK, largest)))
    run = federation.lifting.over(federation.method.predict, (0 if stacked else None, 0, 0))
    keys = rng.fold(federation.key("predict").to(data.device), round_, torch.arange(population, device=data.device))
    parts = []
    with torch.no_grad():
        for first in range(0, population, size):
            group = slice(first, first + size)
            own = trees.take(model, group) if stacked else model
            blocks = []
            for block, begin in enumerate(range(0, largest, BLOCK)):
                x = data.tests(group, slice(begin, begin + BLOCK))
                blocks.append(run(own, x, rng.fold(keys[group], block)).mean(1))
            parts.append(torch.cat(blocks, 1))
    held = torch.arange(largest, device=data.device) < test.sizes[:, None]
    owners = torch.arange(population, device=data.device)[:, None].expand(-1, largest)
    return Predictions(torch.cat(parts)[held], data.labels[test.rows][held], owners[held])
