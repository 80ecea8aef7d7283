"""FedBE: FedAvg without distillation, its samplers' moments, the teachers and the mean of weights on a toy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import toy
from agreement import assert_same, preset
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Cohort
from fedbayes.federation.loop import start
from fedbayes.methods.fedbe import Config, distil, draw, pseudo_labels

CLIENTS = {"a": torch.tensor([[1.0, 0.0], [3.0, 4.0], [-1.0, 1.0]], dtype=torch.float64)}
OLD = {"a": torch.tensor([0.5, -0.5], dtype=torch.float64)}
SHARES = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
DRAWS = 20_000
# A mean of that many draws is off by more than four standard errors once in 16,000 times.
ERRORS = 4 / DRAWS**0.5


def fields(name: str = "paper", **changes: Any) -> dict[str, Any]:
    small = {"lr": 0.1, "momentum": 0.0, "epochs": 3, "batch": 4, "student_lr": 0.2, "swa_start": 2, "swa_every": 3}
    return preset("fedbe", name, **(small | changes))


def test_without_distillation_it_is_fedavg() -> None:
    state = toy.after(toy.federation("fedbe", fields(epochs=0)), 3)
    assert_same(state.server.weights, toy.after(toy.federation(), 3).server.weights)


def test_a_student_that_does_not_move_is_fedavg_too() -> None:
    federation = toy.federation("fedbe", fields(student_lr=0.0))
    assert_same(toy.after(federation, 3).server.weights, toy.after(toy.federation(), 3).server.weights)


def drawn(**changes: Any) -> Tensor:
    config = Config.model_validate(fields(**changes))
    return torch.stack([draw(config, OLD, CLIENTS, SHARES, torch.tensor(seed))["a"] for seed in range(DRAWS)])


def test_the_gaussian_has_the_weighted_moments_of_the_clients() -> None:
    found = drawn(directions=False, spread=1.0)
    mean = (SHARES[:, None] * CLIENTS["a"]).sum(0)
    variance = (SHARES[:, None] * (CLIENTS["a"] - mean) ** 2).sum(0)
    assert bool(((found.mean(0) - mean).abs() <= ERRORS * variance.sqrt()).all())
    assert bool(((found.var(0) - variance).abs() <= ERRORS * 2**0.5 * variance).all())


def test_the_code_s_gaussian_is_about_directions() -> None:
    found = drawn(name="reference")
    updates = CLIENTS["a"] - OLD["a"]
    lengths = updates.norm(dim=1)
    directions = updates / lengths[:, None]
    std = 0.1 * lengths.mean() * directions.std(0, correction=0)
    mean = OLD["a"] + lengths.mean() * directions.mean(0)
    assert bool(((found.mean(0) - mean).abs() <= ERRORS * std).all())
    assert bool(((found.std(0) - std).abs() <= ERRORS / 2**0.5 * std).all())


def test_a_client_that_did_not_move_has_no_direction() -> None:
    config = Config.model_validate(fields("reference"))
    found = draw(config, OLD, {"a": OLD["a"].expand(3, 2)}, SHARES, torch.tensor(0))
    assert_same(found, OLD)


def test_the_dirichlet_sampler_mixes_clients() -> None:
    # Equal shares: weights are Dir(alpha) themselves, with mean 1/3 and variance (1/3)(2/3) / (3 alpha + 1).
    config = Config.model_validate(fields("dirichlet", concentration=2.0))
    basis, equal = {"a": torch.eye(3, dtype=torch.float64)}, torch.full((3,), 1 / 3, dtype=torch.float64)
    weights = torch.stack([draw(config, OLD, basis, equal, torch.tensor(s))["a"] for s in range(DRAWS)])
    torch.testing.assert_close(weights.sum(1), torch.ones(DRAWS, dtype=torch.float64))
    variance = 2 / 9 / 7
    assert bool(((weights.mean(0) - 1 / 3).abs() <= ERRORS * variance**0.5).all())
    # The law's fourth moment is below a Gaussian's here, so the Gaussian's error bounds the variance's.
    assert bool(((weights.var(0) - variance).abs() <= ERRORS * 2**0.5 * variance).all())


def softmax_of(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    hidden = torch.relu(x.flatten(1) @ weights["hidden0.weight"].T + weights["hidden0.bias"])
    return F.softmax(hidden @ weights["head.weight"].T + weights["head.bias"], 1)


def test_teachers_are_the_average_the_draws_and_the_clients() -> None:
    federation = toy.federation("fedbe", fields(epochs=1, swa_start=0, swa_every=1, batch=100))
    state = start(federation)
    x = federation.data.unlabeled
    assert x is not None and x.shape == (10, 1, 1, 2)
    up = trees.stack([{n: w + 0.3 * i for n, w in state.server.weights.items()} for i in range(3)])
    cohort = Cohort(torch.arange(3), torch.tensor([7, 12, 4]), 3, 3, x)
    found = federation.method.merge(state.server, up, cohort, torch.tensor(4))
    # The same by hand: one whole batch, one step, whose weights are the mean of weights.
    config = Config.model_validate(fields(epochs=1, swa_start=0, swa_every=1, batch=100))
    p = torch.tensor([7, 12, 4], dtype=torch.float64) / 23
    average = {n: (p.view(-1, *[1] * (w.dim() - 1)) * w).sum(0) for n, w in up.items()}
    teachers = [average, *(trees.take(up, i) for i in range(3))]
    teachers += [draw(config, state.server.weights, up, p, rng.fold(torch.tensor(4), 0, m)) for m in range(10)]
    mean = torch.stack([softmax_of(w, x) for w in teachers]).mean(0)
    target = mean**2 / (mean**2).sum(1, keepdim=True)
    student = {n: w.clone().requires_grad_() for n, w in average.items()}
    loss = (target * (target.log() - softmax_of(student, x).log())).mean()
    loss.backward()
    for name, w in student.items():
        decay = 0.00001 * w.detach()
        torch.testing.assert_close(found.weights[name], w.detach() - 0.2 * (w.grad + decay), rtol=0, atol=1e-11)


def student_along(config: Config, steps: int) -> tuple[list[dict[str, Tensor]], Any]:
    """A student by torch.optim: its weights after each step, and what `distil` gives for the same."""
    network = toy.network()
    x = torch.randn(10, 1, 1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    begin = network.init(torch.Generator().manual_seed(0))
    targets, key = pseudo_labels([begin], network, x + 1, 0.5), torch.tensor(2)
    student = {name: w.clone().requires_grad_() for name, w in begin.items()}
    sgd = torch.optim.SGD(student.values(), lr=config.student_lr, momentum=config.student_momentum)
    trail: list[dict[str, Tensor]] = []
    for epoch in range(config.epochs):
        for rows in torch.randperm(10, generator=rng.generator(rng.fold(key, epoch))).split(config.batch):
            sgd.zero_grad()
            p = targets[rows]
            (p * (p.log() - softmax_of(student, x[rows]).log())).mean().backward()
            sgd.step()
            trail.append({name: w.detach().clone() for name, w in student.items()})
    assert len(trail) == steps
    return trail, distil(config, network, begin, x, targets, key)


def test_the_mean_of_weights_counts_every_third_step_behind_the_second() -> None:
    trail, found = student_along(Config.model_validate(fields(epochs=4, student_decay=0.0)), 12)
    expected = {n: torch.stack([trail[step - 1][n] for step in (5, 8, 11)]).mean(0) for n in trail[0]}
    assert_same(found, expected)


def test_too_few_steps_for_the_mean_give_the_last_student() -> None:
    trail, found = student_along(Config.model_validate(fields(epochs=1, swa_start=500, student_decay=0.0)), 3)
    assert_same(found, trail[-1])


def test_a_server_without_samples_is_said() -> None:
    federation = toy.federation("fedbe", fields())
    with pytest.raises(ValueError, match="server_share"):
        toy.after(replace(federation, data=replace(federation.data, server=None)), 1)
