"""Pixels to inputs and rows to facts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from fedbayes.federation import resident, rng
from fedbayes.federation.contract import Feed
from fedbayes.federation.inputs import crop_and_flip, normalise
from fedbayes.federation.resident import Resident, lay_out
from pretend_gpu import GPU, PretendGpu

CPU = torch.device("cpu")


def test_pixels_are_scaled_then_shifted_for_each_channel() -> None:
    pixels = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 2, 2) * 10
    mean, std = [0.1, 0.2, 0.3], [0.5, 0.4, 0.3]
    found = normalise(mean, std, torch.float64)(pixels)
    for channel in range(3):
        expected = (pixels[:, channel].double() / 255 - mean[channel]) / std[channel]
        torch.testing.assert_close(found[:, channel], expected, rtol=0, atol=1e-12)


def test_half_and_half_maps_bytes_to_minus_one_and_one() -> None:
    ends = normalise([0.5], [0.5], torch.float32)(torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1))
    assert ends.flatten().tolist() == pytest.approx([-1.0, 1.0])


def test_facts_count_only_the_rows_a_client_holds() -> None:
    rows = [np.array([0, 1, 4]), np.array([2]), np.array([], dtype=np.int64)]
    data = lay_out(np.zeros((5, 1)), np.array([0, 0, 1, 1, 2]), rows, rows, 3, lambda x: x, CPU)
    facts = data.facts(torch.tensor([0, 1, 2]), 7, Feed(batch=2, amount=1, unit="epochs"))
    assert facts.size.tolist() == [3, 1, 0] and facts.round.tolist() == [7, 7, 7]
    assert facts.counts.tolist() == [[2, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert facts.batch.tolist() == [2, 1, 0] and facts.steps.tolist() == [2, 1, 0]


def pictures() -> Tensor:
    """Nine pictures that differ."""
    return torch.randint(256, (9, 3, 5, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def laid_out(train: list[list[int]], test: list[list[int]]) -> Resident:
    own = [[np.array(rows, dtype=np.int64) for rows in indices] for indices in (train, test)]
    return lay_out(pictures().numpy(), np.arange(9), *own, 9, normalise([0.1] * 3, [0.7] * 3, torch.float32), CPU)


@pytest.mark.parametrize("kept", [True, False])
def test_samples_are_those_of_the_split_however_they_lie_in_memory(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kept:
        monkeypatch.setattr(resident, "KEEP_UP_TO_BYTES", 0)
    train, test = [[8, 0], [3, 5], [1, 8]], [[2, 4, 2], [4], []]
    data, expected = laid_out(train, test), normalise([0.1] * 3, [0.7] * 3, torch.float32)(pictures())
    for client in range(3):
        rows = data.train.rows[client, : data.train.sizes[client]]
        assert data.labels[rows].tolist() == train[client] and torch.equal(data.samples(rows), expected[train[client]])
        rows = data.test.rows[client, : data.test.sizes[client]]
        assert data.labels[rows].tolist() == test[client]
    assert torch.equal(data.tests(data.test, slice(0, 2), slice(0, 1)), expected[[2, 4]][:, None])
    assert torch.equal(data.window(2, 2, 2, slice(1, 2)), expected[[5, 8]][:, None])
    assert len(data.inputs) == 8  # six held for training, then each tested sample once


def test_windows_are_views_where_inputs_are_kept() -> None:
    data = laid_out([[8, 0], [3, 5]], [[1]])
    storages = {data.window(0, 2, 2, slice(begin, begin + 1)).untyped_storage().data_ptr() for begin in (0, 1)}
    assert len(storages) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_batches_are_made_on_the_device_without_waiting(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kept:
        monkeypatch.setattr(resident, "KEEP_UP_TO_BYTES", 0)
    own, prepare = [np.array([8, 0]), np.array([3, 5])], normalise([0.1] * 3, [0.7] * 3, torch.float32)
    expected = prepare(pictures())
    with PretendGpu() as gpu:
        data = lay_out(pictures().numpy(), np.arange(9), own, own, 9, prepare, GPU, augment=crop_and_flip)
        assert (data.shape == (3, 5, 7) and data._prepared is None) or kept
        keys = rng.fold(torch.tensor(1).to(GPU), torch.arange(2, device=GPU))
        with gpu.hot():
            rows = data.train.rows
            batches = [data.samples(rows), data.window(0, 2, 2, slice(0, 2)), data.augmented(rows, keys)]
        gathered, viewed, cut = (batch.cpu() for batch in batches)
    assert torch.equal(gathered, expected[[8, 0, 3, 5]].view(2, 2, 3, 5, 7)) and torch.equal(viewed, gathered)
    assert cut.shape == gathered.shape and not torch.equal(cut, gathered)
