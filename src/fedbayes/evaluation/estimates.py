r"""Errors of estimates, where the data come from a known law and there is nothing to classify.

A model is one number: the mean that Self-FL's synthetic experiments estimate. Held against the truth it has the
`error` $|\theta^T - \theta_0|$ of a global model and $|\theta_m^T - \theta_m|$ of a personal one; held against the best
that can be made of the data, the posterior means $\theta^{(G)}$ and $\theta_m^{(FL)}$, the `distance`.

The unit is the repeat: where other runs have a value for each client, these have one for each federation, personal
models as the mean over its clients. Their spread over repeats is what a standard error is made of.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedbayes.evaluation.evaluate import Scored, Scores, visit_clients
from fedbayes.federation import trees
from fedbayes.federation.contract import Model
from fedbayes.federation.loop import Federation, State
from fedbayes.reading import ConfigError


def estimated(federation: Federation, state: State) -> dict[str, Scored]:
    """Errors and distances of the personal and the global models, by model."""
    truth = federation.data.truth
    assert truth is not None
    shape = (federation.replicates, federation.population)
    found = {"pm": _scored(_personal(federation, state).view(shape), truth.personal)}
    if federation.method.common is not None:
        found["gm"] = _scored(_common(federation, state)[:, None], truth.common)
    return found


def _personal(federation: Federation, state: State) -> Tensor:
    """Every client's number, after the method's `adapt` visit."""
    everybody = range(federation.data.population)
    models = visit_clients(federation, state, federation.method.adapt, everybody, federation.key("adapt")).out
    return _numbers(models["pm"], len(everybody))


def _common(federation: Federation, state: State) -> Tensor:
    """Every server's number."""
    assert federation.method.common is not None
    if federation.replicates == 1:
        return _numbers(trees.stack([federation.method.common(state.server)]), 1)
    return _numbers(torch.vmap(federation.method.common)(state.server), federation.replicates)


def _numbers(models: Model, count: int) -> Tensor:
    """Models of one weight as numbers."""
    weights = [leaf.reshape(count, -1) for leaf in trees.leaves(models)]
    if sum(part.shape[1] for part in weights) != 1:
        raise ConfigError("this method's models are not single numbers: it does not go with data of a known law")
    return weights[0][:, 0]


def _scored(estimates: Tensor, truths: dict[str, Tensor]) -> Scored:
    """Mean distances of estimates `[repeat, model]` from each kind of truth, over all and of each repeat."""
    repeats, models = estimates.shape
    each = {metric: (estimates - truth.view(repeats, -1)).abs().mean(1) for metric, truth in truths.items()}
    metrics = {metric: Scores(float(values.mean()), values.tolist()) for metric, values in each.items()}
    return Scored(tuple(range(repeats)), repeats * models, metrics)
