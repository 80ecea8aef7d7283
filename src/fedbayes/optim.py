"""Optimisers as pure functions on dicts of tensors: a client's optimiser state is client state for some methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from fedbayes.tensors import Params

# Adam's constants: the defaults of torch.optim.Adam, which every paper here uses.
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
# The default of torch.optim.RMSprop.
RMSPROP_ALPHA = 0.99


# By name: the state of Adam or AMSGrad, or a velocity; nothing where an optimiser keeps nothing.
OptimiserState = dict[str, Any]


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


class AmsgradState(NamedTuple):
    """Adam's state, and the largest second moment so far with the bias it had then, as torch.optim keeps it."""

    adam: AdamState
    largest: Tensor


def amsgrad_start(vector: Tensor) -> AmsgradState:
    """The state before the first step."""
    return AmsgradState(adam_start(vector), torch.zeros_like(vector))


def amsgrad(vector: Tensor, grad: Tensor, state: AmsgradState, lr: Tensor) -> tuple[Tensor, AmsgradState]:
    r"""One step of Adam whose second moment never falls (Reddi, Kale, Kumar 2018, Algorithm 2).

    $v^{\max} \leftarrow \max(v^{\max}, v)$,
    $w \leftarrow w - \eta\, \hat m / (\sqrt{v^{\max} / (1 - \beta_2^t)} + \epsilon)$, as torch.optim.Adam has it.
    """
    _, new = adam(vector, grad, state.adam, lr)
    largest = torch.maximum(state.largest, new.second * new.second_correction)
    moved = vector - lr * new.first / ((largest / new.second_correction).sqrt() + EPSILON)
    return moved, AmsgradState(new, largest)


def rmsprop(vector: Tensor, grad: Tensor, state: Tensor, lr: Tensor) -> tuple[Tensor, Tensor]:
    r"""One step of RMSprop as torch.optim has it.

    $v \leftarrow \alpha v + (1-\alpha) g^2$, $w \leftarrow w - \eta g / (\sqrt v + \epsilon)$ with $\alpha = 0.99$.
    """
    second = RMSPROP_ALPHA * state + (1 - RMSPROP_ALPHA) * grad * grad
    return vector - lr * grad / (second.sqrt() + EPSILON), second


# How each of them begins and steps on one vector.
ADAPTIVE: dict[str, tuple[Callable[[Tensor], Any], Callable[..., tuple[Tensor, Any]]]] = {
    "adam": (adam_start, adam),
    "amsgrad": (amsgrad_start, amsgrad),
    "rmsprop": (torch.zeros_like, rmsprop),
}


class Step(Protocol):
    """One step: weights, their gradients, the state, and a factor of the step size where it changes along a run."""

    def __call__(
        self, params: Params, grads: Params, state: OptimiserState, scale: Tensor | None = None
    ) -> tuple[Params, OptimiserState]:
        """The weights after the step, and the new state."""
        ...


class Optimiser(NamedTuple):
    """A way to descend on weights by name; its state is a tree of tensors, so a client may keep it or not."""

    start: Callable[[Params], OptimiserState]
    step: Step


def optimiser(
    kind: Literal["sgd", "adam", "amsgrad", "rmsprop"],
    lr: float,
    momentum_decay: float = 0.0,
    weight_decay: float = 0.0,
    decays_biases: bool = False,
) -> Optimiser:
    """SGD with momentum, Adam, AMSGrad, or RMSprop.

    Args:
        kind: which of them.
        lr: step size.
        momentum_decay: of SGD's velocity; 0 for none.
        weight_decay: L2 pull towards 0, added to the gradient.
        decays_biases: whether biases are pulled too, as torch.optim does unless told otherwise; FedRep's code does not.
    """
    # 0-dim tensors, not Python numbers: a compiled step then serves every learning rate.
    base, decay, pull = (torch.tensor(v, dtype=torch.float64) for v in (lr, momentum_decay, weight_decay))

    def pulled(params: Params, grads: Params) -> Params:
        if not weight_decay:
            return grads
        return {n: g + pull * params[n] if decays_biases or n.endswith(".weight") else g for n, g in grads.items()}

    def start(params: Params) -> OptimiserState:
        if kind != "sgd":
            return {name: ADAPTIVE[kind][0](w) for name, w in params.items()}
        return {name: torch.zeros_like(w) for name, w in params.items()} if momentum_decay else {}

    def step(
        params: Params, grads: Params, state: OptimiserState, scale: Tensor | None = None
    ) -> tuple[Params, OptimiserState]:
        slopes = pulled(params, grads)
        rate = base if scale is None else base * scale
        if kind != "sgd":
            both = {name: ADAPTIVE[kind][1](params[name], slopes[name], state[name], rate) for name in params}
            return {name: moved for name, (moved, _) in both.items()}, {name: new for name, (_, new) in both.items()}
        velocity = momentum(state, slopes, decay) if momentum_decay else {}
        return sgd(params, velocity or slopes, rate), velocity

    return Optimiser(start, step)
