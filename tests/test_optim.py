"""Optimisers against torch.optim."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fedbayes import optim


def gradients(count: int = 6) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(4, dtype=torch.float64) for _ in range(count)]


def by_torch(optimiser: type[torch.optim.Optimizer], **options: float) -> torch.Tensor:
    weight = torch.ones(4, dtype=torch.float64, requires_grad=True)
    steps = optimiser([weight], **options)  # type: ignore[arg-type]
    for grad in gradients():
        weight.grad = grad.clone()
        steps.step()
    return weight.detach()


def test_adam_equals_torch() -> None:
    weight = torch.ones(4, dtype=torch.float64)
    state, lr = optim.adam_start(weight), torch.tensor(0.01, dtype=torch.float64)
    for grad in gradients():
        weight, state = optim.adam(weight, grad, state, lr)
    torch.testing.assert_close(weight, by_torch(torch.optim.Adam, lr=0.01), rtol=1e-12, atol=1e-12)


def test_amsgrad_equals_torch_where_it_differs_from_adam() -> None:
    # The last gradients are small, so that the largest second moment is an old one.
    stream = torch.Generator().manual_seed(0)
    sizes = [1.0] * 3 + [1e-3] * 500
    grads = [size * torch.randn(4, generator=stream, dtype=torch.float64) for size in sizes]
    steps = optim.optimiser("amsgrad", 0.01)
    weights = {"w": torch.ones(4, dtype=torch.float64)}
    state = steps.start(weights)
    for grad in grads:
        weights, state = steps.step(weights, {"w": grad}, state)
    found = {}
    for largest in (True, False):
        weight = torch.ones(4, dtype=torch.float64, requires_grad=True)
        theirs = torch.optim.Adam([weight], lr=0.01, amsgrad=largest)
        for grad in grads:
            weight.grad = grad.clone()
            theirs.step()
        found[largest] = weight.detach()
    torch.testing.assert_close(weights["w"], found[True], rtol=1e-11, atol=1e-11)
    assert (found[True] - found[False]).abs().max() > 1e-4


@pytest.mark.parametrize("kind", ["sgd", "adam", "amsgrad"])
def test_a_scaled_step_is_a_step_of_the_scaled_size(kind: Any) -> None:
    whole, tenth = optim.optimiser(kind, 0.1), optim.optimiser(kind, 0.01)
    one = other = {"w": torch.ones(4, dtype=torch.float64)}
    state, state_of_other = whole.start(one), tenth.start(other)
    for grad in gradients():
        one, state = whole.step(one, {"w": grad}, state, torch.tensor(0.1, dtype=torch.float64))
        other, state_of_other = tenth.step(other, {"w": grad}, state_of_other)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_sgd_with_momentum_equals_torch() -> None:
    weight, velocity = {"w": torch.ones(4, dtype=torch.float64)}, {"w": torch.zeros(4, dtype=torch.float64)}
    lr, decay = torch.tensor(0.1, dtype=torch.float64), torch.tensor(0.9, dtype=torch.float64)
    for grad in gradients():
        velocity = optim.momentum(velocity, {"w": grad}, decay)
        weight = optim.sgd(weight, velocity, lr)
    torch.testing.assert_close(weight["w"], by_torch(torch.optim.SGD, lr=0.1, momentum=0.9), rtol=1e-12, atol=1e-12)


def test_adam_in_float32_follows_torch_through_huge_gradients_and_many_steps() -> None:
    stream = torch.Generator().manual_seed(0)
    grads = [torch.randn(4, generator=stream) * (1e20 if t == 1500 else 1) for t in range(3000)]
    weight, theirs = torch.ones(4), torch.ones(4, requires_grad=True)
    state, lr = optim.adam_start(weight), torch.tensor(0.01, dtype=torch.float64)
    steps = torch.optim.Adam([theirs], lr=0.01)
    for grad in grads:
        weight, state = optim.adam(weight, grad, state, lr)
        theirs.grad = grad.clone()
        steps.step()
    torch.testing.assert_close(weight, theirs.detach(), rtol=1e-4, atol=1e-5)
