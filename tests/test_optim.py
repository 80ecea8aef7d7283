"""Optimisers against torch.optim."""

from __future__ import annotations

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
