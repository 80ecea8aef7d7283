"""Optimisers as pure functions on dicts of tensors: a client's optimiser state is client state for some methods."""

from __future__ import annotations

from torch import Tensor

from fedbayes.tensors import Params


def sgd(params: Params, grads: Params, lr: Tensor) -> Params:
    r"""One step of gradient descent, $w \leftarrow w - \eta g$."""
    return {name: params[name] - lr * grads[name] for name in params}


def momentum(velocity: Params, grads: Params, decay: Tensor) -> Params:
    r"""The new velocity $v \leftarrow \mu v + g$ (torch.optim.SGD without dampening); descend along it with `sgd`."""
    return {name: decay * velocity[name] + grads[name] for name in velocity}
