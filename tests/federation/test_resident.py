"""Pixels to inputs and rows to facts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedbayes.federation import resident
from fedbayes.federation.resident import Resident, normalise, shards

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
    rows = shards([np.array([0, 1, 4]), np.array([2]), np.array([], dtype=np.int64)], CPU)
    data = Resident(torch.zeros(5, 1), torch.tensor([0, 0, 1, 1, 2]), rows, rows, 3, lambda x: x)
    facts = data.facts(torch.tensor([0, 1, 2]), 7)
    assert facts.size.tolist() == [3, 1, 0] and facts.round.tolist() == [7, 7, 7]
    assert facts.counts.tolist() == [[2, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_kept_inputs_are_those_prepared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = torch.Generator().manual_seed(0)
    inputs = torch.randint(256, (9, 3, 5, 7), dtype=torch.uint8, generator=stream)
    own, prepare = shards([np.array([8, 0, 3]), np.array([1, 1])], CPU), normalise([0.1] * 3, [0.7] * 3, torch.float32)
    data = [Resident(inputs, torch.zeros(9, dtype=torch.int64), own, own, 3, prepare) for _ in range(2)]
    rows = torch.tensor([[8, 2], [2, 5], [0, 0]])
    kept = data[0].samples(rows), data[0].tests(slice(1, 2), slice(0, 2))
    monkeypatch.setattr(resident, "KEEP_UP_TO_BYTES", 0)
    anew = data[1].samples(rows), data[1].tests(slice(1, 2), slice(0, 2))
    assert kept[0].shape == (3, 2, 3, 5, 7) and kept[1].shape == (1, 2, 3, 5, 7)
    assert all(torch.equal(a, b) for a, b in zip(kept, anew, strict=True))
    torch.testing.assert_close(kept[0][1, 1], prepare(inputs[5]))
