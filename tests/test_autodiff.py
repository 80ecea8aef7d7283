"""The two ways to a gradient give one answer."""

from __future__ import annotations

import torch
from torch import Tensor

from fedbayes.autodiff import grad_and_value


def energy(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    return ((weights["a"] * x).sin() + weights["b"]).sum()


def test_alone_and_inside_vmap_agree_with_the_derivative_by_hand() -> None:
    stream = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(3, 5, generator=stream, dtype=torch.float64) for name in ("a", "b", "unused")}
    x = torch.randn(5, generator=stream, dtype=torch.float64)
    together, values = torch.vmap(grad_and_value(energy), in_dims=(0, None))(weights, x)
    for i in range(3):
        own = {name: w[i] for name, w in weights.items()}
        alone, value = grad_and_value(energy)(own, x)
        torch.testing.assert_close(value, values[i])
        for grads in (alone, {name: g[i] for name, g in together.items()}):
            torch.testing.assert_close(grads["a"], (own["a"] * x).cos() * x)
            torch.testing.assert_close(grads["b"], torch.ones_like(x))
            torch.testing.assert_close(grads["unused"], torch.zeros_like(x))
        assert not any(leaf.requires_grad for leaf in (*own.values(), *alone.values(), value))
