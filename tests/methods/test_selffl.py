"""Self-FL: its formulas one by one, its algorithms on the scalar model with known variances, and on the toy network."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import plain_loop
import toy
import two_levels
from agreement import assert_same, preset
from fedbayes.federation import trees
from fedbayes.federation.contract import Feed
from fedbayes.federation.loop import advance, choose, start
from fedbayes.methods.selffl import (
    Clusters,
    aggregation_weights,
    newest,
    others_mean,
    running_variance,
    spread,
    steps_to_posterior,
)

CLIENTS = two_levels.CLIENTS
F64 = torch.float64


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=F64)


# ---------------------------------------------------------------- formulas


def test_eq_10_is_the_mean_of_the_others() -> None:
    theta, w = torch.randn(5, generator=torch.Generator().manual_seed(0), dtype=F64), numbers(1, 2, 3, 4, 5)
    mean = (w * theta).sum() / w.sum()
    for m in range(5):
        rest = [k for k in range(5) if k != m]
        expected = (w[rest] * theta[rest]).sum() / w[rest].sum()
        found = others_mean({"theta": mean}, {"theta": theta[m]}, w[m] / w[rest].sum())["theta"]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_eq_8_steps_end_at_the_posterior_mean() -> None:
    # (6): after l steps the share a = base^l of the distance to the local optimum is left; (3) wants o / (1/s + o).
    variance, others, eta = numbers(0.007, 0.02, 0.001), numbers(2400.0, 30.0, 0.5), 1e-6
    left = (1 - eta / variance) ** steps_to_posterior(variance, others, eta / variance)
    torch.testing.assert_close(left, others / (1 / variance + others), rtol=1e-3, atol=0)


def test_typical_step_counts_of_the_first_case() -> None:
    # N = 15, 20 clients: the target is 0.943, a step leaves 0.985, so about four steps.
    variance = numbers(0.1 / 15)
    others = 19 / (0.001 + variance)
    assert steps_to_posterior(variance, others, 1e-4 / variance).tolist() == [4]


def test_remark_d1_limits() -> None:
    eta, v = 1e-9, 0.1
    # Large N: what is left of the way, a, is about (M / N)(v / sigma_0^2).
    size, between, clients = 1e6, 1.0, 20
    variance = numbers(v / size)
    others, step = (clients - 1) / (between + variance), 1e-5
    left = numbers(1 - step) ** steps_to_posterior(variance, others, numbers(step))
    torch.testing.assert_close(left, (clients - 1) / numbers(size) * v / between, rtol=1e-4, atol=0)
    # Many clients: eta l ~ sigma_0^2 / M (in units where the sum of w is M / sigma_0^2).
    variance, clients = numbers(1e-3), 10**6
    others = clients / (between + variance)
    moved = eta * steps_to_posterior(variance, others, eta / variance).double()
    torch.testing.assert_close(moved, (between + variance) / clients, rtol=1e-2, atol=0)
    # sigma_0 = 0: all estimates are equally good, eta l ~ sigma^2 ln(1 + 1 / (M - 1)), which is of the order v / N.
    others = 19 / variance
    moved = eta * steps_to_posterior(variance, others, eta / variance).double()
    torch.testing.assert_close(moved, variance * math.log(20 / 19), rtol=1e-3, atol=0)


@pytest.mark.parametrize("shape", [(1,), (3, 2)])
def test_the_running_variance_is_the_variance(shape: tuple[int, ...]) -> None:
    models = torch.randn(7, *shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    mean, variance = {"w": torch.zeros(shape, dtype=F64)}, numbers(0.0)[0]
    for t, model in enumerate(models, start=1):
        mean, variance = running_variance(mean, variance, torch.tensor(t), {"w": model}, correct=True)
        torch.testing.assert_close(mean["w"], models[:t].mean(0), rtol=0, atol=1e-14)
        torch.testing.assert_close(variance, models[:t].var(0, correction=0).mean(), rtol=0, atol=1e-14)


def test_as_printed_it_is_not_and_can_be_negative() -> None:
    mean, variance = {"w": numbers(0.0)}, numbers(0.0)[0]
    for t, value in enumerate((1.0, 0.9), start=1):
        mean, variance = running_variance(mean, variance, torch.tensor(t), {"w": numbers(value)}, correct=False)
    # (1/2) [0 + (0.95 - 1)] + (0.9 - 0.95)^2 / 2 with the first value's own 0 before it.
    assert float(variance) == pytest.approx(0.5 * (0.0 - 0.05) + 0.0025 / 2)
    assert float(variance) < 0


def test_weights_at_the_two_ends() -> None:
    one = torch.ones(3, dtype=F64)
    # No heterogeneity and equal variances: FedAvg's mean of equal clients.
    share, total = aggregation_weights(numbers(0.0)[0], numbers(0.2, 0.2, 0.2), one, known=True)
    torch.testing.assert_close(share, one / 3, rtol=0, atol=1e-15)
    torch.testing.assert_close(total, numbers(15.0)[0])
    # No heterogeneity: precisions decide.
    share, _ = aggregation_weights(numbers(0.0)[0], numbers(1.0, 0.5, 0.25), one, known=True)
    torch.testing.assert_close(share, numbers(1, 2, 4) / 7)
    # Boundless heterogeneity: the plain mean, whatever the variances.
    share, _ = aggregation_weights(numbers(1e9)[0], numbers(1.0, 0.5, 0.25), one, known=True)
    torch.testing.assert_close(share, one / 3, rtol=1e-8, atol=0)


def test_weights_before_variances_are_known() -> None:
    one = torch.ones(3, dtype=F64)
    share, total = aggregation_weights(numbers(0.0)[0], numbers(0.0, 0.0, 0.0), one, known=False)
    assert share.tolist() == pytest.approx([1 / 3] * 3) and float(total) == 0.0
    # One newcomer among three counts like the mean of the others: w = 1, 0.5 and 0.75.
    share, total = aggregation_weights(numbers(0.5)[0], numbers(0.5, 1.5, 0.0), one, known=False)
    assert share.tolist() == pytest.approx([1 / 2.25, 0.5 / 2.25, 0.75 / 2.25]) and float(total) == pytest.approx(2.25)


def test_spread_is_the_variance_over_those_that_count() -> None:
    models = {"a": torch.randn(4, 2, generator=torch.Generator().manual_seed(2), dtype=F64)}
    counted = numbers(1, 1, 0, 1)
    expected = models["a"][[0, 1, 3]].var(0, correction=0).mean()
    torch.testing.assert_close(spread(models, counted), expected, rtol=0, atol=1e-14)


def test_clusters_keep_their_latest_model() -> None:
    old = Clusters({"w": numbers(10, 20, 30)}, numbers(1, 2, 3), torch.tensor([True, False, True]))
    new = newest(old, {"w": numbers(1, 3, 7)}, numbers(0.1, 0.3, 0.5), torch.tensor([0, 0, 1]))
    assert new.weights["w"].tolist() == [2, 7, 30] and new.seen.tolist() == [True, True, True]
    assert new.variance.tolist() == pytest.approx([0.2, 0.5, 3])


# ---------------------------------------------------------------- the scalar model


def posterior_means(truth: two_levels.Truth, between: float, exact: bool) -> Tensor:
    """theta_m^(FL) by (3), or by the exact posterior, [repeat, client]."""
    variance = two_levels.SAMPLE_VARIANCE / truth.sizes
    w = 1 / (between + variance)
    rest = w.sum(1, keepdim=True) - w
    centre = ((w * truth.local).sum(1, keepdim=True) - w * truth.local) / rest
    weight = 1 / (between + 1 / rest) if exact else rest
    return (truth.local / variance + weight * centre) / (1 / variance + weight)


def test_the_exact_posterior_of_the_hierarchy() -> None:
    # What Algorithm 2 is held against below, itself against the joint Gaussian of (theta_1, z_1..z_M) with a prior on
    # theta_0 so wide that it is flat.
    between, wide = 0.7, 1e8
    truth = two_levels.Truth(numbers(0, 0, 0)[None], numbers(1.0, -2.0, 0.5)[None], numbers(1, 2, 3)[None])
    variances = two_levels.SAMPLE_VARIANCE / truth.sizes[0]
    covariance = wide + torch.diag(between + variances)
    for client in range(3):
        cross = torch.full((3,), wide, dtype=F64)
        cross[client] += between
        expected = cross @ torch.linalg.solve(covariance, truth.local[0])
        found = posterior_means(truth, between, exact=True)[0, client]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("case", "between"), [(1, 0.001), (2, 1.0)])
def test_algorithm_1_contracts_towards_its_fixed_point(case: int, between: float) -> None:
    fields = preset("selffl", "synthetic", client_variance=between)
    federation, truth = two_levels.federate("selffl", fields, case, repeats=3, active=CLIENTS)
    variance = two_levels.SAMPLE_VARIANCE / truth.sizes
    w = 1 / (between + variance)
    rest = w.sum(1, keepdim=True) - w
    base = 1 - two_levels.LR / variance
    a = base ** steps_to_posterior(variance, rest, 1 - base).clamp(1, fields["max_steps"])
    # theta*_m = (1 - a_m) theta_m^(L) + a_m sum_{k != m} w_k theta*_k / sum_{k != m} w_k, a linear system.
    mixing = (a / rest)[:, :, None] * w[:, None, :] * (1 - torch.eye(CLIENTS, dtype=F64))
    fixed = torch.linalg.solve(torch.eye(CLIENTS, dtype=F64) - mixing, (1 - a) * truth.local)
    state, distances = start(federation), []
    for _ in range(12):
        state, _ = advance(federation, state)
        personal = state.clients.personal["mean.weight"].view(3, CLIENTS)
        distances.append((personal - fixed).abs().max(1).values)
    # The first round is a cold start; from the second on every round contracts by the largest a_m at most.
    factors = torch.stack([new / old for old, new in itertools.pairwise(distances[1:])])
    alive = torch.stack(distances[1:-1]) > 1e-10
    q = (rest / (1 / variance + rest)).max(1).values
    rounding = base.min(1).values ** -0.5  # l_m is a whole number: a_m may be off by half a step
    assert (factors[alive] <= a.max(1).values.expand_as(factors)[alive] * (1 + 1e-6)).all()
    assert (a.max(1).values <= q * rounding).all() and (q < 1).all()


@pytest.mark.parametrize(("case", "between"), [(1, 0.001), (2, 1.0)])
@pytest.mark.parametrize("posterior", ["paper", "exact"])
def test_algorithm_2_hits_the_posterior_mean_in_the_second_round(case: int, between: float, posterior: str) -> None:
    fields = preset("selffl", "synthetic", client_variance=between, algorithm=2, posterior=posterior, max_steps=5000)
    federation, truth = two_levels.federate("selffl", fields, case, repeats=2, active=CLIENTS)
    state = start(federation)
    for _ in range(2):
        state, _ = advance(federation, state)
    local = state.clients.local["mean.weight"].view(2, CLIENTS)
    torch.testing.assert_close(local, truth.local, rtol=0, atol=1e-8)
    variance = two_levels.SAMPLE_VARIANCE / truth.sizes
    w = 1 / (between + variance)
    expected = posterior_means(truth, between, exact=posterior == "exact")
    # l_m is a whole number: half a step is the most it can miss, out of what is left of the way.
    rest = w.sum(1, keepdim=True) - w
    centre = ((w * truth.local).sum(1, keepdim=True) - w * truth.local) / rest
    missed = (two_levels.LR / variance) * (truth.local - centre).abs()
    personal = state.clients.personal["mean.weight"].view(2, CLIENTS)
    assert ((personal - expected).abs() <= missed + 1e-8).all()
    common = state.server.weights["mean.weight"].view(2)
    torch.testing.assert_close(common, (w * truth.local).sum(1) / w.sum(1), rtol=0, atol=1e-8)


def test_without_heterogeneity_the_server_is_the_precision_weighted_mean_and_with_much_everybody_is_local() -> None:
    for between, exact in ((1e-9, False), (1e9, False), (1e9, True)):
        fields = preset(
            "selffl",
            "synthetic",
            client_variance=between,
            max_steps=5000,
            algorithm=2,
            posterior="exact" if exact else "paper",
        )
        federation, truth = two_levels.federate("selffl", fields, 1, repeats=1, active=CLIENTS)
        state = start(federation)
        for _ in range(2):
            state, _ = advance(federation, state)
        personal = state.clients.personal["mean.weight"].view(CLIENTS)
        common = float(state.server.weights["mean.weight"])
        if between < 1:
            sizes = truth.sizes[0]
            assert common == pytest.approx(float((sizes * truth.local[0]).sum() / sizes.sum()), abs=1e-6)
            # One common mean for all, up to half a step of the whole number l_m.
            assert float((personal - common).abs().max()) < 0.02 * float((truth.local[0] - common).abs().max()) + 1e-3
        else:
            assert common == pytest.approx(float(truth.local[0].mean()), abs=1e-6)
            torch.testing.assert_close(personal, truth.local[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_algorithm_1_with_boundless_heterogeneity_is_local_training(exact: bool) -> None:
    fields = preset("selffl", "synthetic", client_variance=1e9, max_steps=5000, posterior="exact" if exact else "paper")
    federation, truth = two_levels.federate("selffl", fields, 1, repeats=1, active=CLIENTS)
    personal = toy.after(federation, 2).clients.personal["mean.weight"].view(CLIENTS)
    torch.testing.assert_close(personal, truth.local[0], rtol=0, atol=1e-6)


def test_the_exact_posterior_is_nearer_to_the_truth_where_clients_differ() -> None:
    # An independent simulation of 200 repeats has .0377 and .0294 for case 2 with everybody active.
    found = []
    for posterior in ("paper", "exact"):
        fields = preset("selffl", "synthetic", client_variance=1.0, posterior=posterior)
        federation, truth = two_levels.federate("selffl", fields, 2, repeats=20, active=CLIENTS)
        personal = toy.after(federation, 12).clients.personal["mean.weight"].view(20, CLIENTS)
        found.append((personal - truth.theta).abs().mean(1))
    gain = found[0] - found[1]
    assert float(gain.mean()) > 4 * float(gain.std()) / math.sqrt(20)
    assert [float(errors.mean()) for errors in found] == [
        pytest.approx(0.0377, rel=0.1),
        pytest.approx(0.0294, rel=0.1),
    ]


def plain_self_fl(
    truth: two_levels.Truth, chosen: list[list[int]], between: float, cap: float, most: int
) -> list[float]:
    """Algorithm 1 on the scalar model with some clients a round, by closed forms, one client at a time."""
    lr, sizes, local = two_levels.LR, truth.sizes[0].tolist(), truth.local[0].tolist()
    variance = [two_levels.SAMPLE_VARIANCE / n for n in sizes]
    w = [1 / (between + v) for v in variance]
    personal, server, before, total = [0.0] * CLIENTS, 0.0, [], 0.0
    for active in chosen:
        for m in active:
            others = total - (w[m] if m in before else 0.0)
            start, steps = server, two_levels.STEPS
            if others > 0:
                if m in before:
                    start = server - min(w[m] / others, cap) * (personal[m] - server)
                left = others / (1 / variance[m] + others)
                steps = min(max(round(math.log(left) / math.log(1 - lr / variance[m])), 1), most)
            a = (1 - lr / variance[m]) ** steps
            personal[m] = (1 - a) * local[m] + a * start
        estimate = sum(w[m] * personal[m] for m in active) / sum(w[m] for m in active)
        rate = len(active) / CLIENTS
        server = (1 - rate) * server + rate * estimate
        before, total = active, sum(w[m] for m in active)
    return [server, *personal]


@pytest.mark.parametrize("cap", [1.0, 0.3])
def test_partial_participation_against_closed_forms(cap: float) -> None:
    fields = preset("selffl", "synthetic", cap=cap)
    federation, truth = two_levels.federate("selffl", fields, 1, repeats=1, active=3)
    chosen = [choose(federation, t).tolist() for t in range(25)]
    assert any(set(a) & set(b) for a, b in itertools.pairwise(chosen)), "somebody is active twice in a row"
    expected = plain_self_fl(truth, chosen, 0.001, cap, fields["max_steps"])
    state = toy.after(federation, 25)
    found = [float(state.server.weights["mean.weight"]), *state.clients.personal["mean.weight"].flatten().tolist()]
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("contraction", "share"), [("consistent", 1.0), ("printed", 1 / 15), ("one", 1.0)])
def test_step_counts_by_contraction(contraction: str, share: float) -> None:
    # A full batch of N = 15: c_m is 1 consistently, 1 / 15 as printed.
    fields = preset("selffl", "synthetic", contraction=contraction)
    federation, truth = two_levels.federate("selffl", fields, 1, repeats=1, active=CLIENTS)
    _, report = advance(federation, toy.after(federation, 1))
    for client, size in enumerate(truth.sizes[0].tolist()):
        variance = 0.1 / size
        others = sum(1 / (0.001 + 0.1 / n) for n in truth.sizes[0].tolist()) - 1 / (0.001 + variance)
        own = share if contraction != "printed" else 1 / size
        expected = math.log(others / (1 / variance + others)) / math.log(1 - 1e-4 * own / variance)
        assert float(report.info["steps"][client]) == min(max(round(expected), 1), fields["max_steps"])


def test_replicates_are_what_each_federation_is_alone() -> None:
    fields = preset("selffl", "synthetic")
    together, _ = two_levels.federate("selffl", fields, 1, repeats=3, active=CLIENTS)
    alone, _ = two_levels.federate("selffl", fields, 1, repeats=1, active=CLIENTS)
    one, three = toy.after(alone, 3), toy.after(together, 3)
    torch.testing.assert_close(three.server.weights["mean.weight"][0], one.server.weights["mean.weight"])
    torch.testing.assert_close(three.clients.personal["mean.weight"][:CLIENTS], one.clients.personal["mean.weight"])
    assert three.server.weights["mean.weight"].shape == (3, 1)


# ---------------------------------------------------------------- networks


def test_a_cold_start_is_a_round_of_fedavg() -> None:
    fields = preset("selffl", "reference", lr=0.1, smoothing="none")
    ours = toy.after(toy.federation("selffl", fields, sizes=(8, 8, 8)), 1)
    theirs = toy.after(toy.federation(sizes=(8, 8, 8)), 1)
    assert_same(ours.server.weights, theirs.server.weights)


def test_the_gradient_of_the_sum_is_the_batch_times_that_of_the_mean() -> None:
    one = toy.after(toy.federation("selffl", preset("selffl", "reference", gradient="sum", lr=0.01), sizes=(8, 8)), 1)
    other = toy.after(
        toy.federation("selffl", preset("selffl", "reference", gradient="mean", lr=0.04), sizes=(8, 8)), 1
    )
    assert_same(one.server.weights, other.server.weights)


def test_smoothing_weighs_the_new_estimate_by_the_activity_rate() -> None:
    rough, smooth = (
        toy.federation("selffl", preset("selffl", "reference", smoothing=s), sizes=(8,) * 4, clients_per_round=1)
        for s in ("none", "activity")
    )
    before = start(rough).server.weights
    one, other = toy.after(rough, 1).server.weights, toy.after(smooth, 1).server.weights
    assert_same(other, {name: 0.75 * w + 0.25 * one[name] for name, w in before.items()})


def test_two_rounds_with_estimated_variances_against_a_plain_loop() -> None:
    """Round 1 is cold, so is round 2 (one model has no variance), round 3 follows the formulas."""
    lr, cap, most = 0.05, 1.0, 40
    fields = preset(
        "selffl", "paper", lr=lr, gradient="mean", contraction="consistent", max_steps=most, smoothing="none"
    )
    federation = toy.federation("selffl", fields, sizes=(8, 12, 16))
    w = start(federation).server.weights
    data, sizes = plain_loop.Data(federation), (8, 12, 16)
    history: list[list[Tensor]] = [[], [], []]
    personal = [w] * 3
    between, total, sent, shares = 0.0, 0.0, [0.0] * 3, [1 / 3] * 3
    for _ in range(4):
        variances = [float(torch.stack(h).var(0, correction=0).mean()) if h else 0.0 for h in history]
        new = []
        for m in range(3):
            own = 1 / (between + sent[m]) if between + sent[m] > 1e-12 else 0.0
            others = total - own
            if variances[m] > 1e-12 and between > 1e-12 and others > 1e-6 * total:
                factor = min(own / others, cap)
                weights = {n: v - factor * (personal[m][n] - v) for n, v in w.items()}
                base = min(max(1 - lr / sizes[m] / variances[m], 1e-3), 1 - 1e-9)
                steps = round(math.log(others / (1 / variances[m] + others)) / math.log(base))
                steps = min(max(steps, 1), most)
            else:
                weights, steps = w, plain_loop.STEPS
            for _ in range(steps):
                weights = plain_loop.moved(weights, plain_loop.grad(weights, *data.next(m)), lr)
            new.append(weights)
        personal, sent = new, variances
        flat = [torch.cat([v.flatten() for v in model.values()]) for model in personal]
        for m in range(3):
            history[m].append(flat[m])
        between = float(torch.stack(flat).var(0, correction=0).mean())
        if min(sent) > 1e-12:
            precisions = [1 / (between + s) for s in sent]
            total, shares = sum(precisions), [p / sum(precisions) for p in precisions]
        w = {n: sum(p * model[n] for p, model in zip(shares, personal, strict=True)) for n in w}  # type: ignore[misc]
    state = toy.after(federation, 4)
    assert_same(state.server.weights, w, atol=1e-9)
    assert float(state.server.between) == pytest.approx(between)


def test_fixed_steps_are_the_experiments() -> None:
    federation = toy.federation("selffl", preset("selffl", "paper", steps="fixed"), feed=Feed(4, 2, "epochs"))
    state = toy.after(federation, 4)
    # Two epochs of 7, 12 and 4 samples in batches of four.
    assert state.seen.tolist() == [4 * 2 * 2, 4 * 2 * 3, 4 * 2 * 1]


def test_a_round_reports_its_steps_and_how_often_the_base_was_raised() -> None:
    federation = toy.federation("selffl", preset("selffl", "paper", contraction="one", lr=0.5))
    state = toy.after(federation, 4)
    _, report = advance(federation, state)
    # Variances of a few thousandths against a step of 0.5: one step each, all of them raised.
    assert report.info["clipped"].tolist() == [1.0] * 3 and report.info["steps"].tolist() == [1.0] * 3
    usual = toy.federation("selffl", preset("selffl", "paper", contraction="one", lr=0.5, clipped="usual"))
    assert advance(usual, toy.after(usual, 4))[1].info["steps"].tolist() == [3.0] * 3


def test_clusters_of_one_client_each_are_the_client_level_while_nobody_is_corrected() -> None:
    # Two rounds are a cold start; later the client level begins at the others' mean, the cluster level at the server's.
    one, other = (
        toy.after(toy.federation("selffl", preset("selffl", "reference", clients_per_cluster=c)), 2) for c in (None, 1)
    )
    assert_same(one.server.weights, other.server.weights)


def test_the_server_s_model_is_the_mean_over_clusters_not_over_the_active_clients() -> None:
    fields = preset("selffl", "clusters", clients_per_cluster=2, smoothing="none")
    federation = toy.federation("selffl", fields, sizes=(8,) * 4, clients_per_round=1)
    state, latest = start(federation), {}
    for number in range(6):
        (client,) = choose(federation, number).tolist()
        state, _ = advance(federation, state)
        latest[client // 2] = trees.take(state.clients.personal, client)
        if float(state.server.total) == 0:  # no variances yet: all clusters seen so far count equally
            mean = {n: sum(model[n] for model in latest.values()) / len(latest) for n in state.server.weights}
            assert_same(state.server.weights, mean)
    assert len(latest) == 2


def test_float32_counts_steps_as_float64_does() -> None:
    # 1 - 1e-7 has one digit left in float32.
    variance, others, step = numbers(0.01), numbers(50.0), numbers(1e-7)
    exact = steps_to_posterior(variance, others, step)
    rough = steps_to_posterior(variance.float(), others.float(), step.float())
    torch.testing.assert_close(rough, exact, rtol=1e-5, atol=0)
    assert steps_to_posterior(*(v.float() for v in (variance, others, numbers(0.0)))).item() > 10**6


def test_a_cluster_with_nobody_active_keeps_its_say() -> None:
    fields = preset("selffl", "reference", clients_per_cluster=2, smoothing="none")
    federation = toy.federation("selffl", fields, sizes=(8,) * 4, clients_per_round=1)
    state = start(federation)
    seen = []
    for _ in range(6):
        state, _ = advance(federation, state)
        seen.append(state.server.clusters.seen.tolist())
    assert seen[0].count(True) == 1 and seen[-1] == [True, True]


def test_known_variances_need_their_numbers() -> None:
    with pytest.raises(ValueError, match="belong to `variance: known`"):
        toy.federation("selffl", preset("selffl", "paper", variance="known"))
    with pytest.raises(ValueError, match="belong to `variance: known`"):
        toy.federation("selffl", preset("selffl", "paper", sample_variance=0.1))
