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
    """Moments of one vector under Adam and the number of steps taken."""

    first: Tensor
    second: Tensor
    steps: Tensor


def adam_start(vector: Tensor) -> AdamState:
    """The state before the first step."""
    steps = torch.zeros((), dtype=vector.dtype, device=vector.device)
    return AdamState(torch.zeros_like(vector), torch.zeros_like(vector), steps)


def adam(vector: Tensor, grad: Tensor, state: AdamState, lr: Tensor) -> tuple[Tensor, AdamState]:
    r"""One step of Adam with the usual constants (Kingma and Ba 2015, Algorithm 1).

    $m \leftarrow \beta_1 m + (1-\beta_1) g$, $v \leftarrow \beta_2 v + (1-\beta_2) g^2$,
    $w \leftarrow w - \eta\, \hat m / (\sqrt{\hat v} + \epsilon)$ with $\beta = (0.9, 0.999)$, $\epsilon = 10^{-8}$.
    """
    steps = state.steps + 1
    first = BETA_1 * state.first + (1 - BETA_1) * grad
    second = BETA_2 * state.second + (1 - BETA_2) * grad * grad
    unbias_first, unbias_second = 1 - BETA_1**steps, 1 - BETA_2**steps
    moved = vector - (lr / unbias_first) * first / ((second / unbias_second).sqrt() + EPSILON)
    return moved, AdamState(first, second, steps)
