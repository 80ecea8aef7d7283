"""MetaVD: whole rounds against a plain loop with autograd and torch.optim, aggregation by hand, FedAvg as a limit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import toy
from agreement import EXACT, assert_same, preset
from fedbayes.evaluation.evaluate import predict_all, predict_pm
from fedbayes.federation import rng, trees
from fedbayes.federation.contract import Batch, Cohort, Feed
from fedbayes.federation.loop import Federation, State, advance, choose, start
from fedbayes.methods import load_method
from fedbayes.methods.metavd import Posterior, Server, precision_weighted, stochastic_layers
from fedbayes.models import load_network
from fedbayes.parts.hypernetwork import Hypernetwork
from fedbayes.reading import ConfigError

PRESETS = ("paper", "reference", "all-layers")
WEIGHTS = ("hidden0.weight", "hidden0.bias", "head.weight", "head.bias")
LAYERS = ("hidden0", "head")
BATCH = 4
# Everything that keeps MetaVD from being FedAvg, switched off.
SILENT: dict[str, Any] = {
    "lr": 0.1, "noise_std": 0.0, "beta": 0.0, "server_lr": 1.0, "momentum": 0.0, "clip": None, "server_clip": None,
    "embedding_std": 0.0,
}  # fmt: skip
# Large steps and weights, so that every term of a round is seen; few units, so that a round is quick.
LIVELY: dict[str, Any] = {"lr": 0.3, "hidden": 6, "depth": 2, "ramp": 2, "cycle": 3, "bound": 2.0, "weight_decay": 0.05}


# ---------------------------------------------------------------- FedAvg as a limit


@pytest.mark.parametrize("name", PRESETS)
def test_silent_it_is_fedavg(name: str) -> None:
    ours = toy.after(toy.federation("metavd", preset("metavd", name, **SILENT)), 3).server.weights
    assert_same(ours, toy.after(toy.federation(), 3).server.weights)


@pytest.mark.parametrize(
    "loud",
    [
        {"noise_std": 1.0},
        {"beta": 10.0, "ramp": 1},
        {"server_lr": 0.9},
        {"momentum": 0.9},
        {"clip": 0.1},
        {"server_clip": 0.01},
        {"embedding_std": 1.0},
    ],
    ids=lambda loud: next(iter(loud)),
)
def test_each_condition_of_that_is_needed(loud: dict[str, Any]) -> None:
    ours = toy.after(toy.federation("metavd", preset("metavd", "paper", **(SILENT | loud))), 3).server.weights
    theirs = toy.after(toy.federation(), 3).server.weights
    assert max(float((ours[n] - theirs[n]).abs().max()) for n in theirs) > 1e5 * EXACT


# ---------------------------------------------------------------- whole rounds, one client at a time


class Plain:
    """MetaVD on the toy perceptron as anybody would write it: torch.nn, autograd, torch.optim, no engine."""

    def __init__(self, fields: dict[str, Any], federation: Federation) -> None:
        self.fields, self.federation, server = fields, federation, start(federation).server
        self.weights = {n: w.clone().requires_grad_() for n, w in server.weights.items()}
        self.table = nn.Embedding.from_pretrained(server.hyper.embeddings.clone(), freeze=False)
        modules: list[nn.Module] = []
        for n in range(fields["depth"] + 1):
            weight, bias = (server.hyper.layers[f"{n}.{part}"] for part in ("weight", "bias"))
            linear = nn.Linear(*weight.T.shape, dtype=weight.dtype)
            with torch.no_grad():
                linear.weight.copy_(weight)
                linear.bias.copy_(bias)
            modules += [linear, nn.LeakyReLU(0.1)]
        self.hyper = nn.Sequential(*modules[:-1])
        self.drawn = LAYERS if fields["stochastic"] == "all" else LAYERS[:1]
        self.optimiser = torch.optim.SGD(
            [
                {"params": self.weights.values(), "momentum": fields["momentum"]},
                {"params": self.hyper.parameters(), "momentum": fields["hyper_momentum"],
                 "weight_decay": fields["weight_decay"]},
                {"params": self.table.parameters(), "momentum": fields["embedding_momentum"],
                 "weight_decay": fields["weight_decay"]},
            ],
            lr=fields["server_lr"],
        )  # fmt: skip
        self.seen = [0] * federation.population

    def log_variance(self, client: int) -> dict[str, Tensor]:
        flat = self.hyper(self.table(torch.tensor(client))).clamp(-self.fields["bound"], self.fields["bound"])
        flat, found, place = flat - self.fields["bound"], {}, 0
        for layer in self.drawn:
            shape = self.weights[f"{layer}.weight"].shape
            if self.fields["outputs"] == "unit":
                rows = [flat[place + row].repeat(shape[1]) for row in range(shape[0])]
                found[layer], place = torch.stack(rows), place + shape[0]
            else:
                found[layer], place = flat[place : place + shape.numel()].reshape(shape), place + shape.numel()
        return found

    def cut(self, a: Tensor) -> Tensor:
        return a if self.fields["floor"] is None else torch.clamp(a, min=self.fields["floor"])

    def beta(self, round_: int) -> float:
        place = round_ if self.fields["cycle"] is None else round_ % self.fields["cycle"]
        share = place / self.fields["ramp"]
        rise = share if self.fields["ramp_shape"] == "linear" else 1 / (1 + math.exp(6 - 12 * share))
        return float(self.fields["beta"] * (rise if share <= 1 else 1.0))

    def energy(self, w: dict[str, Tensor], a: dict[str, Tensor], x: Tensor, y: Tensor, key: Tensor, beta: float
               ) -> Tensor:  # fmt: skip
        outputs = []
        for draw in range(self.fields["draws"]):
            h = x.flatten(1)
            for place, layer in enumerate(LAYERS):
                out = h @ w[f"{layer}.weight"].T + w[f"{layer}.bias"]
                if layer in self.drawn:
                    # Numbers are drawn for a whole batch, its padding too.
                    noise = rng.normal(rng.fold(key, draw, place), BATCH * out.shape[1], out.dtype)
                    noise = noise.view(BATCH, -1)[: len(out)]
                    spread = (h**2 @ self.cut(a[layer]).exp().T + 1e-16).sqrt()
                    out = out + self.fields["noise_std"] * spread * noise
                h = torch.relu(out) if layer == "hidden0" else out
            outputs.append(h)
        if self.fields["likelihood"] == "logits":
            fit = F.cross_entropy(torch.stack(outputs).mean(0), y)
        else:
            fit = torch.stack([F.cross_entropy(out, y) for out in outputs]).mean()
        terms = [
            0.5 * torch.log(1 + w[f"{layer}.weight"].detach() ** 2 / self.cut(a[layer]).exp()).flatten()
            for layer in self.drawn
        ]
        return fit + beta * torch.cat(terms).mean()

    def stepped(self, client: int, w: dict[str, Tensor], a: dict[str, Tensor], key: Tensor, beta: float) -> None:
        """One step of local SGD, in place, on the client's next batch."""
        data = self.federation.data
        batches = data.train.rows[client, : data.train.sizes[client]].split(BATCH)
        rows = batches[self.seen[client] % len(batches)]
        self.seen[client] += 1
        leaves = [*w.values(), *a.values()]
        for leaf in leaves:
            leaf.requires_grad_().grad = None
        self.energy(w, a, data.inputs[rows], data.labels[rows], key, beta).backward()
        if self.fields["clip"] is not None:
            nn.utils.clip_grad_norm_(leaves, self.fields["clip"])
        with torch.no_grad():
            for leaf in leaves:
                leaf -= self.fields["lr"] * (0 if leaf.grad is None else leaf.grad)

    def round(self, round_: int) -> None:
        federation, chosen = self.federation, choose(self.federation, round_).tolist()
        sizes = federation.data.train.sizes
        p = {client: float(sizes[client]) / float(sum(sizes[i] for i in chosen)) for client in chosen}
        ends = {}
        for client in chosen:
            w = {n: v.detach().clone() for n, v in self.weights.items()}
            a = {n: v.detach().clone() for n, v in self.log_variance(client).items()}
            key = rng.fold(federation.key("train"), round_, client, 1)
            for step in range(federation.feed.amount):
                self.stepped(client, w, a, rng.fold(key, step), self.beta(round_))
            ends[client] = ({n: v.detach() for n, v in w.items()}, {n: v.detach() for n, v in a.items()})
        self.optimiser.zero_grad()
        for n, start_ in self.weights.items():
            layer = n.rsplit(".", 1)[0]
            top, bottom = torch.zeros_like(start_), torch.zeros_like(start_)
            for client, (w, a) in ends.items():
                drawn = n.endswith("weight") and layer in self.drawn
                precision = 1 / self.cut(a[layer]).exp() if drawn else torch.ones_like(start_)
                top, bottom = top + p[client] * precision * w[n], bottom + p[client] * precision
            start_.grad = (start_ - top / bottom).detach()
        for client, (_, a) in ends.items():
            begun = self.log_variance(client)
            torch.autograd.backward(
                [begun[n] for n in self.drawn], [p[client] * (begun[n].detach() - a[n]) for n in self.drawn]
            )
        if self.fields["server_clip"] is not None:
            every = [*self.weights.values(), *self.hyper.parameters(), *self.table.parameters()]
            nn.utils.clip_grad_norm_(every, self.fields["server_clip"])
        self.optimiser.step()

    def state(self) -> tuple[dict[str, Tensor], Hypernetwork]:
        linear = [module for module in self.hyper if isinstance(module, nn.Linear)]
        layers = {f"{n}.{part}": getattr(m, part).detach() for n, m in enumerate(linear) for part in ("weight", "bias")}
        return {n: w.detach() for n, w in self.weights.items()}, Hypernetwork(layers, self.table.weight.detach())


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("paper", LIVELY),
    ("paper", LIVELY | {"likelihood": "logits", "outputs": "unit", "stochastic": "first 1"}),
    ("reference", LIVELY | {"floor": -2.1, "clip": 0.5, "server_clip": 0.1, "embedding_std": 2.0}),
    ("reference", {"hidden": 6, "ramp": 2}),
    ("all-layers", LIVELY),
    ("all-layers", LIVELY | {"outputs": "weight", "draws": 1}),
]


@pytest.mark.parametrize(("name", "changes"), CHANGES)
def test_rounds_against_a_plain_loop(name: str, changes: dict[str, Any]) -> None:
    fields = preset("metavd", name) | changes
    federation = toy.federation("metavd", fields, clients_per_round=2)
    plain, state = Plain(fields, federation), start(federation)
    for round_ in range(4):
        state, _ = advance(federation, state)
        plain.round(round_)
        assert_same((state.server.weights, state.server.hyper), plain.state(), atol=1e-10)
    first = start(federation).server
    moved = [float((a - b).abs().max()) for a, b in zip(trees.leaves(first.hyper), trees.leaves(state.server.hyper),
                                                        strict=True)]  # fmt: skip
    assert min(moved) > 1e-6, "every part of the hypernetwork has moved"


@pytest.mark.parametrize(("name", "changes"), CHANGES[:3])
def test_the_report_is_the_mean_loss_and_its_part_of_the_data(name: str, changes: dict[str, Any]) -> None:
    fields = preset("metavd", name) | changes
    federation = toy.federation("metavd", fields, feed=Feed(BATCH, 1))
    state = toy.after(federation, 1)
    plain = Plain(fields, federation)
    plain.round(0)
    with torch.no_grad():
        weights = {n: w.detach() for n, w in plain.weights.items()}
        _, report = advance(federation, state)
        for client in range(3):
            rows = federation.data.train.rows[client, : federation.data.train.sizes[client]].split(BATCH)
            own = rows[1 % len(rows)]
            x, y = federation.data.inputs[own], federation.data.labels[own]
            key = rng.fold(federation.key("train"), 1, client, 1, 0)
            a = plain.log_variance(client)
            for part, beta in (("loss", plain.beta(1)), ("fit", 0.0)):
                expected = plain.energy(weights, a, x, y, key, beta)
                torch.testing.assert_close(report.info[part][client], expected, rtol=0, atol=1e-10)


# ---------------------------------------------------------------- the server by hand


def test_two_precisions_by_hand() -> None:
    # Precisions 1 and 4, shares 1/4 and 3/4: (1/4 * 2 + 3/4 * 4 * 6) / (1/4 + 3/4 * 4) = 18.5 / 3.25.
    means = torch.tensor([[2.0], [6.0]], dtype=torch.float64)
    found = precision_weighted(means, -torch.tensor([[1.0], [4.0]]).double().log(), torch.tensor([0.25, 0.75]).double())
    assert float(found) == pytest.approx(18.5 / 3.25, abs=1e-12)


def test_equal_precisions_are_the_mean_and_a_dropped_weight_counts_nothing() -> None:
    means, p = torch.tensor([[2.0], [6.0]]).double(), torch.tensor([0.25, 0.75]).double()
    assert float(precision_weighted(means, torch.full((2, 1), -8.5).double(), p)) == pytest.approx(5.0, abs=1e-12)
    far = torch.tensor([[-17.0], [0.0]]).double()
    # 3/4 * (6 - 2) of a share of 3 e^-17.
    assert float(precision_weighted(means, far, p)) - 2 == pytest.approx(12 * math.exp(-17), rel=1e-6)


def merged(fields: dict[str, Any], up: Posterior, ids: list[int], sizes: list[int]) -> tuple[Server, Server]:
    """The server before and after the uploads of two clients of three."""
    federation = toy.federation("metavd", fields)
    server = start(federation).server
    cohort = Cohort(torch.tensor(ids), torch.tensor(sizes), 3, 3)
    return server, federation.method.merge(server, up, cohort, torch.tensor(0))


def uploads() -> Posterior:
    """Client 0 sends ones, client 2 threes; log-variances of the hidden layer 0 and -log 2."""
    shapes = {"hidden0.weight": (5, 2), "hidden0.bias": (5,), "head.weight": (3, 5), "head.bias": (3,)}
    weights = {n: torch.stack([torch.full(s, 1.0), torch.full(s, 3.0)]).double() for n, s in shapes.items()}
    a = torch.tensor([0.0, -math.log(2)], dtype=torch.float64).view(2, 1, 1).expand(2, 5, 2)
    return Posterior(weights, {"hidden0.weight": a})


@pytest.mark.parametrize(("weighting", "p"), [("samples", (0.2, 0.8)), ("uniform", (0.5, 0.5))])
def test_the_stochastic_layer_is_weighted_by_precision_and_the_others_are_not(
    weighting: str, p: tuple[float, float]
) -> None:
    fields = preset("metavd", "paper", server_lr=1.0, weighting=weighting)
    _, server = merged(fields, uploads(), [0, 2], [1, 4])
    by_precision = (p[0] * 1 + p[1] * 2 * 3) / (p[0] + p[1] * 2)
    for name, value in ((n, by_precision if n == "hidden0.weight" else p[0] + 3 * p[1]) for n in WEIGHTS):
        found = server.weights[name]
        torch.testing.assert_close(found, torch.full_like(found, value), rtol=0, atol=1e-12)


def test_the_floor_holds_for_precisions_too() -> None:
    fields = preset("metavd", "paper", server_lr=1.0, weighting="uniform", floor=0.0)
    _, server = merged(fields, uploads(), [0, 2], [1, 4])
    # With both variances at the floor the precisions are equal.
    assert float(server.weights["hidden0.weight"][0, 0]) == pytest.approx(2.0, abs=1e-12)


def test_part_of_the_way_and_momentum() -> None:
    fields = preset("metavd", "paper", server_lr=0.5, momentum=0.9, weighting="uniform")
    federation = toy.federation("metavd", fields)
    first, one = merged(fields, uploads(), [0, 2], [1, 4])
    two = federation.method.merge(one, uploads(), Cohort(torch.tensor([0, 2]), torch.tensor([1, 4]), 3, 3),
                                  torch.tensor(0))  # fmt: skip
    w = first.weights["head.bias"]
    half = w - 0.5 * (w - 2)
    torch.testing.assert_close(one.weights["head.bias"], half)
    torch.testing.assert_close(two.weights["head.bias"], half - 0.5 * (0.9 * (w - 2) + half - 2))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_an_absent_client_s_embedding_only_decays(decay: float) -> None:
    fields = preset("metavd", "paper", server_lr=0.5, weight_decay=decay)
    before, after = merged(fields, uploads(), [0, 2], [1, 4])
    kept = after.hyper.embeddings / before.hyper.embeddings
    torch.testing.assert_close(kept[1], torch.full_like(kept[1], 1 - 0.5 * decay))
    assert bool(((kept[[0, 2]] - (1 - 0.5 * decay)).abs() > 1e-6).all())


def test_a_client_that_returns_what_it_was_sent_moves_nothing() -> None:
    fields = preset("metavd", "paper", lr=0.0, weight_decay=0.0)
    federation = toy.federation("metavd", fields)
    assert_same(toy.after(federation, 2).server[:2], start(federation).server[:2], atol=1e-14)


# ---------------------------------------------------------------- tests of personal models


def adapted(federation: Federation, state: State, fields: dict[str, Any], client: int, own: bool) -> Tensor:
    """Probabilities after one step of the plain loop with the client's own log-variance, or with -bound."""
    plain = Plain(fields, federation)
    server = state.server
    plain.weights = {n: w.clone() for n, w in server.weights.items()}
    sent = federation.method.send(server, torch.tensor(client)).log_variance
    a = {n.rsplit(".", 1)[0]: (v if own else torch.full_like(v, -fields["bound"])).clone() for n, v in sent.items()}
    plain.seen[client] = int(state.seen[client])
    key = rng.fold(federation.key("adapt"), int(state.round), client, 1, 0)
    plain.stepped(client, plain.weights, a, key, plain.beta(int(state.round)))
    w = {n: v.detach() for n, v in plain.weights.items()}
    rows = federation.data.test.rows[client, : federation.data.test.sizes[client]]
    hidden = torch.relu(F.linear(federation.data.inputs[rows].flatten(1), w["hidden0.weight"], w["hidden0.bias"]))
    return F.softmax(F.linear(hidden, w["head.weight"], w["head.bias"]), 1)


@pytest.mark.parametrize("adapt_from", ["own", "constant"])
@pytest.mark.parametrize("name", ["paper", "all-layers"])
def test_one_step_then_mean_weights(name: str, adapt_from: str) -> None:
    # -bound is where a newcomer begins; embeddings far apart make a client's own something else.
    fields = preset("metavd", name) | LIVELY | {"adapt_from": adapt_from, "embedding_std": 3.0}
    federation = toy.federation("metavd", fields)
    state = toy.after(federation, 2)
    found = predict_pm(federation, state)
    for client in range(3):
        expected = adapted(federation, state, fields, client, own=adapt_from == "own")
        other = adapted(federation, state, fields, client, own=adapt_from != "own")
        torch.testing.assert_close(found.probs[found.clients == client], expected, rtol=0, atol=EXACT)
        assert float((expected - other).abs().max()) > 1e-6


def test_a_newcomer_is_adapted_with_nobody_s_embedding() -> None:
    fields = preset("metavd", "paper") | LIVELY | {"embedding_std": 3.0}
    federation = replace(toy.federation("metavd", fields, clients_per_round=2), newcomers=(1,))
    state = toy.after(federation, 2)

    def of_the_newcomer(state: State) -> Tensor:
        found = predict_all(federation, state)["pm"]
        return found.probs[found.clients == 1]

    expected = adapted(federation, state, fields, 1, own=False)
    torch.testing.assert_close(of_the_newcomer(state), expected, rtol=0, atol=EXACT)
    hyper = state.server.hyper
    other = hyper._replace(embeddings=hyper.embeddings.index_fill(0, torch.tensor([1]), 7.0))
    changed = state._replace(server=state.server._replace(hyper=other))
    assert torch.equal(of_the_newcomer(changed), of_the_newcomer(state))


def test_adaptation_takes_so_many_batches_of_training_data() -> None:
    method = toy.federation("metavd", preset("metavd", "paper", adapt_steps=2)).method
    for visit in (method.adapt, method.newcomer):
        assert visit.phases[0].feed is not None and visit.phases[0].feed(Feed(4, 5, "epochs")) == Feed(4, 2, "batches")


# ---------------------------------------------------------------- networks


def test_the_layers_that_are_drawn() -> None:
    network = load_network("cnn", {"channels": (2,), "pooled": (True,), "hidden": (4, 3)}, (1, 6, 6), 3)
    assert stochastic_layers(network, "neck") == ("hidden1",)
    assert stochastic_layers(network, "head") == ("head",)
    assert stochastic_layers(network, "all") == ("conv0", "hidden0", "hidden1", "head")
    lonely = load_network("mlp", {"hidden": ()}, (1, 1, 2), 3)
    with pytest.raises(ConfigError, match=r"method metavd: stochastic: found 'neck'.*expected 'head' or 'all'"):
        load_method("metavd", preset("metavd", "paper"), lonely)


def test_convolutions_are_drawn_too() -> None:
    # The KL term is switched off, so that a log-variance moves by the noise of its own layer alone.
    sizes: dict[str, Any] = {"channels": (2, 3), "pooled": (False, True), "hidden": (4,)}
    network = load_network("cnn", sizes, (1, 8, 8), 3)
    method = load_method("metavd", preset("metavd", "all-layers", beta=0.0, bound=2.0), network)
    server = method.init(torch.tensor(0), 5)
    facts = trees.take(toy.resident().facts(torch.arange(3), 0, Feed(4, 3)), 0)
    down = method.send(server, torch.tensor(2))
    work = method.train.begin(down, method.join(server, facts, torch.tensor(0)), facts, torch.tensor(0))
    batch = Batch(torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0]),
                  torch.ones(4))  # fmt: skip
    with torch.no_grad():
        found = method.train.phases[0].step(work, batch, torch.tensor(3))
    for name, a in down.log_variance.items():
        assert a.shape == server.weights[name].shape
        # One number a unit is sent, one a weight comes back.
        assert bool((a == a.flatten(1)[:, :1].view(-1, *[1] * (a.dim() - 1))).all())
        assert float((found.q.log_variance[name] - a).flatten(1).std(1).max()) > 0


def test_all_layers_double_what_travels_on_the_network_of_lrbpfl() -> None:
    sizes: dict[str, Any] = {"channels": (32, 64, 128), "padding": 1, "pooled": (True,) * 3, "hidden": (512, 256)}
    network = load_network("cnn", sizes, (3, 32, 32), 10)
    method = load_method("metavd", preset("metavd", "all-layers"), network)
    server = method.init(torch.tensor(0), 50)
    # LR-BPFL's Table 1 prints 2.44 M, in units of 2^20, for twice its 1.22; biases have no variance.
    sent = trees.numel(method.send(server, torch.tensor(0)))
    assert sent == 2 * 1_276_234 - 1_002 and sent / 2**20 == pytest.approx(2.44, abs=0.01)
    # 50 rows of 13; 13 to 200, twice 200 to 200, 200 to a number for each of 1,002 units.
    assert trees.numel(server.hyper) == 50 * 13 + 14 * 200 + 2 * 201 * 200 + 201 * 1_002
