"""The two ways to a gradient give one answer."""

from __future__ import annotations

import torch
from torch import Tensor

from fedbayes.autodiff import counting, grad_and_value


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


def test_a_gradient_through_a_gradient_is_that_of_the_transform() -> None:
    """One step of meta-learning on sum(w^3): d/dw f(w - a f'(w)) = f'(w - 3 a w^2) (1 - 6 a w)."""

    def cubes(w: Tensor) -> Tensor:
        return (w**3).sum()

    def after_a_step(w: Tensor) -> Tensor:
        return cubes(w - 0.1 * grad_and_value(cubes)(w)[0])

    w = torch.tensor([1.0, 2.0], dtype=torch.float64)
    expected = 3 * (w - 0.3 * w**2) ** 2 * (1 - 0.6 * w)
    torch.testing.assert_close(grad_and_value(after_a_step)(w)[0], expected)
    torch.testing.assert_close(torch.vmap(grad_and_value(after_a_step))(w[None])[0][0], expected)


def test_a_function_that_does_not_look_has_gradient_zero() -> None:
    at = {"a": torch.ones(3)}
    for grads, value in (
        grad_and_value(lambda w: torch.tensor(2.0))(at),
        torch.func.grad_and_value(lambda w: w["a"].sum() * 0 + 2)(at),
    ):
        assert torch.equal(grads["a"], torch.zeros(3)) and float(value) == 2


def test_gradients_are_counted_once_for_each_entry_of_the_axes_they_are_vmapped_over() -> None:
    weights = {"a": torch.ones(3, 5), "b": torch.ones(3, 5)}
    own, x = {name: w[0] for name, w in weights.items()}, torch.ones(5)
    with counting() as outer:
        grad_and_value(energy)(own, x)
        with counting() as inner:
            torch.vmap(grad_and_value(energy), in_dims=(0, None))(weights, x)
        grad_and_value(energy)(own, x)
    assert (outer.gradients, inner.gradients) == (2, 3)
    grad_and_value(energy)(own, x)
    assert outer.gradients == 2, "nothing is counted outside the block"
