"""The baselines as anybody would write them: one client at a time, ordinary autograd, no engine and none of its parts.

Each function takes the toy federation for its data and gives what the method's state should hold after some rounds of
full participation, batches in stored order that go on across rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from fedbayes.federation.loop import Federation

Weights = dict[str, Tensor]
BATCH, STEPS = 4, 3
HEAD = ("head.weight", "head.bias")
BODY = ("hidden0.weight", "hidden0.bias")


def loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy of the toy perceptron."""
    hidden = torch.relu(x.flatten(1) @ weights["hidden0.weight"].T + weights["hidden0.bias"])
    return F.cross_entropy(hidden @ weights["head.weight"].T + weights["head.bias"], y)


def grad(weights: Weights, x: Tensor, y: Tensor) -> Weights:
    """Its gradient by ordinary reverse mode."""
    free = {name: w.detach().clone().requires_grad_() for name, w in weights.items()}
    loss(free, x, y).backward()
    return {name: w.grad for name, w in free.items()}  # type: ignore[misc]


def moved(weights: Weights, direction: Weights, rate: float) -> Weights:
    """One descent step along a direction; weights without one stay."""
    return {name: w - rate * direction[name] if name in direction else w for name, w in weights.items()}


class Data:
    """Batches and sizes of the toy federation's clients."""

    def __init__(self, federation: Federation) -> None:
        data = federation.data
        self.sizes = data.train.sizes.tolist()
        self.tables = [
            [(data.inputs[rows], data.labels[rows]) for rows in data.train.rows[i, :size].split(BATCH)]
            for i, size in enumerate(self.sizes)
        ]
        self.taken = [0] * len(self.sizes)

    def next(self, client: int) -> tuple[Tensor, Tensor]:
        """The client's next batch."""
        batch = self.tables[client][self.taken[client] % len(self.tables[client])]
        self.taken[client] += 1
        return batch

    def clients(self) -> Iterator[int]:
        """Every client once."""
        yield from range(len(self.sizes))

    def mean(self, each: list[Weights], uniform: bool = False) -> Weights:
        """The server's average."""
        shares = [1 / len(each) if uniform else size / sum(self.sizes) for size in self.sizes]
        return {name: sum(p * w[name] for p, w in zip(shares, each, strict=True)) for name in each[0]}  # type: ignore[misc]


def fedprox(federation: Federation, w: Weights, rounds: int, lr: float, mu: float, squared: bool) -> Weights:
    """The penalty goes through autograd here, not through its formula."""
    data = Data(federation)
    for _ in range(rounds):
        each = []
        for client in data.clients():
            own = dict(w)
            for _ in range(STEPS):
                free = {name: v.detach().clone().requires_grad_() for name, v in own.items()}
                gaps = [free[name] - w[name] for name in w]
                # The square root has no derivative at 0, where the penalty's is taken as 0.
                norms = [gap.square().sum() if squared else gap.square().sum().sqrt() for gap in gaps if gap.any()]
                penalty = (mu / 2 if squared else mu) * sum(norms)
                (loss(free, *data.next(client)) + penalty).backward()
                own = moved(own, {name: v.grad for name, v in free.items()}, lr)  # type: ignore[misc]
            each.append(own)
        w = data.mean(each)
    return w


def ditto(
    federation: Federation, w: Weights, rounds: int, lr: float, lam: float, scaled: bool, uniform: bool
) -> tuple[Weights, list[Weights]]:
    """The global model and the personal ones: first the whole of FedAvg's visit, then the whole of the personal one."""
    data, personal = Data(federation), [w for _ in federation.data.train.sizes]
    for _ in range(rounds):
        each = []
        for client in data.clients():
            batches = [data.next(client) for _ in range(STEPS)]
            own = w
            for batch in batches:
                own = moved(own, grad(own, *batch), lr)
            each.append(own)
            v = personal[client]
            for batch in batches:
                pull = {name: (lr if scaled else 1.0) * lam * (v[name] - w[name]) for name in v}
                v = moved(moved(v, grad(v, *batch), lr), pull, 1.0)
            personal[client] = v
        w = data.mean(each, uniform)
    return w, personal


def perfedavg(
    federation: Federation, w: Weights, rounds: int, alpha: float, beta: float, exact_hessian: bool, uniform: bool
) -> Weights:
    """First order, or with the Hessian times the gradient worked out exactly by differentiating twice."""
    data = Data(federation)
    for _ in range(rounds):
        each = []
        for client in data.clients():
            own = w
            for _ in range(STEPS):
                first, second = data.next(client), data.next(client)
                outer = grad(moved(own, grad(own, *first), alpha), *second)
                if exact_hessian:
                    product = hessian_times(own, outer, *data.next(client))
                    outer = moved(outer, product, alpha)
                own = moved(own, outer, beta)
            each.append(own)
        w = data.mean(each, uniform)
    return w


def hessian_times(weights: Weights, direction: Weights, x: Tensor, y: Tensor) -> Weights:
    """The exact product of the loss's Hessian and a direction."""
    names = list(weights)
    _, product = torch.autograd.functional.hvp(
        lambda *ws: loss(dict(zip(names, ws, strict=True)), x, y),
        tuple(weights[n] for n in names),
        tuple(direction[n] for n in names),
    )
    return dict(zip(names, product, strict=True))


def pfedme(
    federation: Federation, w: Weights, rounds: int, fields: dict[str, float], uniform: bool
) -> tuple[Weights, list[Weights], list[Weights]]:
    """The global model, the personal ones theta_i and the local copies w_i."""
    data, thetas, locals_ = Data(federation), [w for _ in federation.data.train.sizes], []
    for _ in range(rounds):
        locals_ = []
        for client in data.clients():
            theta, own = w, w
            for _ in range(STEPS):
                batch = data.next(client)
                for _ in range(int(fields["inner_steps"])):
                    g = grad(theta, *batch)
                    theta = {
                        n: t - fields["lr_personal"] * (g[n] + fields["lam"] * (t - own[n]) + fields["inner_decay"] * t)
                        for n, t in theta.items()
                    }
                own = {n: v - fields["lr"] * fields["lam"] * (v - theta[n]) for n, v in own.items()}
            thetas[client] = theta
            locals_.append(own)
        mean, beta = data.mean(locals_, uniform), fields["server_step"]
        w = {name: (1 - beta) * v + beta * mean[name] for name, v in w.items()}
    return w, thetas, locals_


def message_passing(
    federation: Federation,
    w: Weights,
    rounds: int,
    lr: float,
    pull: Callable[[int], float],
    weights: Callable[[int, list[Tensor], int], list[float]],
) -> list[Weights]:
    """Personal models when each client is sent a mixture; in the first round the common initial model.

    Args:
        federation: whose data.
        w: the initial model.
        rounds: how many.
        lr: step size.
        pull: lambda / alpha_k in round k.
        weights: of a client's mixture, by all models as vectors, in round k.
    """
    data = Data(federation)
    models = [w for _ in data.clients()]
    for number in range(rounds):
        vectors = [torch.cat([v.flatten() for v in model.values()]) for model in models]
        new = []
        for client in data.clients():
            share = [float(i == client) for i in data.clients()] if number == 0 else weights(client, vectors, number)
            mixture = {n: sum(p * model[n] for p, model in zip(share, models, strict=True)) for n in w}
            own = mixture
            for _ in range(STEPS):
                g = grad(own, *data.next(client))
                own = moved(own, {n: g[n] + pull(number) * (own[n] - mixture[n]) for n in g}, lr)
            new.append(own)
        models = new
    return models


def cosine_weights(client: int, models: list[Tensor], self_weight: float, sigma: float) -> list[float]:
    """HeurFedAMP's, straight from the formula."""
    raw = [
        0.0 if other == client else math.exp(sigma * float(models[client] @ m / (models[client].norm() * m.norm())))
        for other, m in enumerate(models)
    ]
    return [self_weight if o == client else (1 - self_weight) * r / sum(raw) for o, r in enumerate(raw)]


def distance_weights(client: int, models: list[Tensor], alpha: float, sigma: float) -> list[float]:
    """FedAMP's, straight from the formula; alpha is bounded so that the others' weights cannot sum to more than 1."""
    alpha = min(alpha, sigma / (len(models) - 1))
    raw = [
        0.0 if other == client else alpha * math.exp(-float((models[client] - m).square().sum()) / sigma) / sigma
        for other, m in enumerate(models)
    ]
    return [1 - sum(raw) if other == client else r for other, r in enumerate(raw)]


class PartlyShared:
    """A client's network of which some weights travel, trained by torch's own optimisers."""

    def __init__(self, w: Weights, make: Callable[[list[Tensor]], torch.optim.Optimizer], kept: bool) -> None:
        self.weights = {name: v.detach().clone().requires_grad_() for name, v in w.items()}
        self.make, self.kept = make, kept
        self.optimiser = make(list(self.weights.values()))

    def load(self, shared: Weights) -> None:
        """The broadcast, written into the network."""
        with torch.no_grad():
            for name, v in shared.items():
                self.weights[name].copy_(v)
        if not self.kept:
            self.optimiser = self.make(list(self.weights.values()))

    def step(self, batch: tuple[Tensor, Tensor], moves: tuple[str, ...]) -> None:
        """One step of some weights: the others have no gradient, which torch's optimisers pass over."""
        self.optimiser.zero_grad()
        loss(self.weights, *batch).backward()
        for name, v in self.weights.items():
            if name not in moves:
                v.grad = None
        self.optimiser.step()


def partly_shared(
    federation: Federation,
    w: Weights,
    rounds: int,
    shared: tuple[str, ...],
    visit: Callable[[Data, int, PartlyShared], None],
    make: Callable[[list[Tensor]], torch.optim.Optimizer],
    kept: bool = False,
    uniform: bool = False,
) -> tuple[Weights, list[Weights]]:
    """The shared weights and all clients' networks after some rounds of a visit."""
    data = Data(federation)
    clients = [PartlyShared(w, make, kept) for _ in data.clients()]
    common = {name: w[name] for name in shared}
    for _ in range(rounds):
        for number, client in enumerate(clients):
            client.load(common)
            visit(data, number, client)
        if shared:
            common = data.mean([{n: c.weights[n].detach().clone() for n in shared} for c in clients], uniform)
    return common, [{n: v.detach() for n, v in c.weights.items()} for c in clients]
