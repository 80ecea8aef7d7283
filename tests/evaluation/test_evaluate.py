"""Predictions of personal and global models against a plain loop over clients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

import toy
from agreement import preset
from fedbayes.evaluation import evaluate
from fedbayes.evaluation.evaluate import (
    Scores,
    predict_followed,
    predict_gm,
    predict_pm,
    scored,
    scored_on_training,
    scores,
)
from fedbayes.federation.loop import Federation, advance, start
from fedbayes.federation.resident import Shards


def forward(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    hidden = F.relu(x.flatten(1) @ weights["hidden0.weight"].T + weights["hidden0.bias"])
    return F.softmax(hidden @ weights["head.weight"].T + weights["head.bias"], -1)


@pytest.mark.parametrize("lift", ["vmap", "loop"])
@pytest.mark.parametrize("block", [2, 500])
def test_the_global_model_on_every_clients_test_set(lift: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "BLOCK", block)
    federation = toy.federation(lift=lift)  # type: ignore[arg-type]
    state, _ = advance(federation, start(federation))
    found = predict_gm(federation, state)
    assert found is not None
    data = federation.data
    for client in range(data.population):
        rows = data.test.rows[client]
        expected = forward(state.server.weights, data.inputs[rows])
        torch.testing.assert_close(found.probs[found.clients == client], expected, rtol=0, atol=1e-12)
        assert found.labels[found.clients == client].tolist() == data.labels[rows].tolist()


def test_personal_models_are_tested_on_their_own_client_only(federation: Federation) -> None:
    """FedAvg's personal model is the broadcast one after one more local visit, so one client more of training."""
    state, _ = advance(federation, start(federation))
    found = predict_pm(federation, state)
    for client, size in enumerate(toy.SIZES):
        alone = toy.federation(clients_per_round=3)
        rows = alone.data.train.rows[client, :size]
        weights = {name: w.clone().requires_grad_() for name, w in state.server.weights.items()}
        batches = list(rows.split(4))
        for t in range(3):
            own = batches[(3 + t) % len(batches)]
            logits = forward(weights, alone.data.inputs[own]).log()
            grads = torch.autograd.grad(F.nll_loss(logits, alone.data.labels[own]), list(weights.values()))
            weights = {
                n: (w - 0.1 * g).detach().requires_grad_() for (n, w), g in zip(weights.items(), grads, strict=True)
            }
        expected = forward(weights, alone.data.inputs[alone.data.test.rows[client]])
        torch.testing.assert_close(found.probs[found.clients == client], expected.detach(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("chunk", [1, 2])
def test_personal_models_predict_the_same_however_many_are_in_memory(chunk: int) -> None:
    whole = toy.federation()
    state, _ = advance(whole, start(whole))
    expected, found = predict_pm(whole, state), predict_pm(toy.federation(chunk=chunk), state)
    assert torch.equal(found.probs, expected.probs)
    assert torch.equal(found.labels, expected.labels) and torch.equal(found.clients, expected.clients)


def test_models_are_tested_on_training_samples_beside_their_tests(federation: Federation) -> None:
    state, data = toy.after(federation, 2), federation.data
    for model, alone in (("pm", predict_pm(federation, state)), ("gm", predict_gm(federation, state))):
        tested, trained = predict_followed(federation, state, model, on_training=True)
        assert alone is not None and all(map(torch.equal, tested, alone)), "tests are what they are without"
        (only,) = predict_followed(federation, state, model, on_training=False)
        assert all(map(torch.equal, only, alone))
        assert torch.bincount(trained.clients).tolist() == list(toy.SIZES), "padding is no sample"
        for client, size in enumerate(toy.SIZES):
            rows = data.train.rows[client, :size]
            own = trained.clients == client
            assert trained.labels[own].tolist() == data.labels[rows].tolist()
            if model == "gm":
                expected = forward(state.server.weights, data.inputs[rows])
                torch.testing.assert_close(trained.probs[own], expected, rtol=0, atol=1e-12)


def test_accuracy_on_training_samples_weighs_clients_by_their_size(federation: Federation) -> None:
    state = toy.after(federation, 2)
    _, trained = predict_followed(federation, state, "pm", on_training=True)
    found = scored_on_training(federation, trained)
    accuracy = found.metrics["accuracy"]
    assert (found.clients, found.samples) == ((0, 1, 2), sum(toy.SIZES))
    weighted = sum(n * value for n, value in zip(toy.SIZES, accuracy.clients, strict=True)) / sum(toy.SIZES)
    assert accuracy.pooled == pytest.approx(weighted)


def test_a_personal_model_is_the_same_on_both_kinds_of_samples() -> None:
    """Clients that train on what they are tested on have the same predictions twice."""
    federation = toy.federation()
    same = replace(federation, data=replace(federation.data, test=federation.data.train))
    state, _ = advance(same, start(same))
    tested, trained = predict_followed(same, state, "pm", on_training=True)
    assert torch.equal(tested.probs, trained.probs)


def test_testing_changes_nothing(federation: Federation) -> None:
    state = start(federation)
    predict_pm(federation, state)
    assert state.seen.tolist() == [0, 0, 0]


def test_unequal_test_sets_are_not_padded_into_the_numbers() -> None:
    federation = toy.federation()
    data = federation.data
    object.__setattr__(data, "test", data.test._replace(sizes=torch.tensor([5, 2, 3])))
    found = predict_gm(federation, start(federation))
    assert found is not None and torch.bincount(found.clients).tolist() == [5, 2, 3]
    accuracy = scores(found, range(3))["accuracy"]
    assert accuracy.pooled == pytest.approx(sum(a * n for a, n in zip(accuracy.clients, (5, 2, 3), strict=True)) / 10)


def test_the_global_model_can_be_tested_on_the_datasets_own_test_part() -> None:
    plain = toy.federation()
    data = plain.data
    rows = torch.tensor([[3, 1, 4]])
    own = replace(plain, data=replace(data, whole=Shards(rows, torch.tensor([3]))))
    state = start(own)
    found = predict_gm(own, state)
    assert found is not None and found.labels.tolist() == data.labels[rows[0]].tolist()
    torch.testing.assert_close(found.probs, own.method.predict(state.server.weights, data.samples(rows[0]), None)[0])
    ((condition, (clients, samples, metrics)),) = scored(own, "gm", found).items()
    assert (condition, clients, samples) == ("clean", (), 3)
    assert metrics["accuracy"].scopes("accuracy") == {"pooled": metrics["accuracy"].pooled}
    personal = predict_pm(own, state)
    assert scored(own, "pm", personal)["clean"].clients == (0, 1, 2), "personal models keep their own test sets"


def test_mean_and_worst_client() -> None:
    values = Scores(0.5, [0.2, 0.9, 0.4])
    assert values.scopes("accuracy") == pytest.approx({"pooled": values.pooled, "mean": 0.5, "worst": 0.2})
    assert values.scopes("nll")["worst"] == 0.9


def test_uncertainty_is_scored_where_a_model_predicts_by_several_draws() -> None:
    federation = toy.federation("feduab", preset("feduab", "paper"))
    predictions = predict_pm(federation, start(federation))
    found = scored(federation, "pm", predictions)["clean"].metrics
    # The two parts are the label's variance under the mean prediction, 1 - sum p^2, client by client.
    for client in range(3):
        probs = predictions.probs[predictions.clients == client]
        total = float((1 - probs.square().sum(1)).mean())
        parts = [found[f"{part}-trace"].clients[client] for part in ("aleatoric", "epistemic")]
        assert sum(parts) == pytest.approx(total) and min(parts) > 0
    single = toy.federation()
    assert "epistemic-trace" not in scored(single, "gm", predict_gm(single, start(single)))["clean"].metrics  # type: ignore[arg-type]
