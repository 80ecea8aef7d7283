"""Optimisers as pure functions on dicts of tensors: a client's optimiser state is client state for some methods."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fedbayes.tensors import Params

# Adam's constants: the defaults of torch.optim.Adam, which every paper here uses.
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


def sgd(params: Params, grads: Params, lr: Tensor) -> Params:
    r"""One step of gradient descent, $w \leftarrow w - \eta g$."""
    return {name: params[name] - lr * grads[name] for name in params}


def momentum(velocity: Params, grads: Params, decay: Tensor) -> Params:
    r"""The new velocity $v \leftarrow \mu v + g$ (torch.optim.SGD without dampening); descend along it with `sgd`."""
    return {name: decay * velocity[name] + grads[name] for name in velocity}


class AdamState(NamedTuple):
    r"""Adam's state for one vector: $\hat m$ and $\hat v$, freed of bias already, and the corrections $1 - \beta^t$."""

    first: Tensor
    second: Tensor
    first_correction: Tensor
    second_correction: Tensor


def adam_start(vector: Tensor) -> AdamState:
    """The state before the first step."""
    none = torch.zeros((), dtype=vector.dtype, device=vector.device)
    return AdamState(torch.zeros_like(vector), torch.zeros_like(vector), none, none)


def adam(vector: Tensor, grad: Tensor, state: AdamState, lr: Tensor) -> tuple[Tensor, AdamState]:
    r"""One step of Adam with the usual constants (Kingma and Ba 2015, Algorithm 1).

    $m \leftarrow \beta_1 m + (1-\beta_1) g$, $v \leftarrow \beta_2 v + (1-\beta_2) g^2$,
    $w \leftarrow w - \eta\, \hat m / (\sqrt{\hat v} + \epsilon)$ with $\beta = (0.9, 0.999)$, $\epsilon = 10^{-8}$.

    Written for $\hat m = m / (1 - \beta_1^t)$ itself: $\hat m \leftarrow \hat m + a (g - \hat m)$ with
    $a = (1 - \beta_1) / (1 - \beta_1^t)$, and $\hat v$ likewise. That is the same number with less to do for each
    weight, and compiled it is one pass over memory instead of three.
    """
    first_correction = BETA_1 * state.first_correction + (1 - BETA_1)
    second_correction = BETA_2 * state.second_correction + (1 - BETA_2)
    share_first, share_second = (1 - BETA_1) / first_correction, (1 - BETA_2) / second_correction
    first = state.first + share_first * (grad - state.first)
    # The share comes first, so that a gradient whose bare square overflows does not do so here.
    second = state.second + (share_second * grad * grad - share_second * state.second)
    moved = vector - lr * first / (second.sqrt() + EPSILON)
    return moved, AdamState(first, second, first_correction, second_correction)
