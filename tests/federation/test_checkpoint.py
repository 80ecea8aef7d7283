"""Checkpoints: what was saved comes back, what is damaged or foreign does not."""

from __future__ import annotations

import logging
import math
import os
import time
from pathlib import Path

import pytest
import torch

from fedbayes.federation import checkpoint

IDENTITY = {"run": "0123456789ab", "code": "c0de"}
LOG = logging.getLogger("test")


def save(folder: Path, round_: int) -> None:
    checkpoint.save(folder, round_, IDENTITY, {"state/w": torch.full((3,), float(round_))}, {"rows": [[round_, 0.1]]})


def test_the_newest_comes_back_exactly_and_two_are_kept(tmp_path: Path) -> None:
    for round_ in (5, 10, 15):
        save(tmp_path, round_)
    tensors, progress = checkpoint.latest(tmp_path, IDENTITY, LOG) or ({}, None)
    assert tensors["state/w"].tolist() == [15.0] * 3 and progress == {"rows": [[15, 0.1]]}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["round-000010", "round-000015"]


@pytest.mark.parametrize("file", ["state.safetensors", "progress.json"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_a_truncated_checkpoint_is_said_and_the_one_before_is_used(
    tmp_path: Path, file: str, keep: float, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 5)
    save(tmp_path, 10)
    whole = (tmp_path / "round-000010" / file).read_bytes()
    (tmp_path / "round-000010" / file).write_bytes(whole[: int(len(whole) * keep)])
    tensors, _ = checkpoint.latest(tmp_path, IDENTITY, LOG) or ({}, None)
    assert tensors["state/w"].tolist() == [5.0] * 3
    assert "round-000010 is not used" in caplog.text


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    save(tmp_path, 5)
    file = tmp_path / "round-000005" / "state.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    assert checkpoint.latest(tmp_path, IDENTITY, LOG) is None


def test_a_checkpoint_of_another_configuration_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path, 5)
    assert checkpoint.latest(tmp_path, IDENTITY | {"code": "other"}, LOG) is None
    assert "another code (c0de, this is other)" in caplog.text


def test_old_leftovers_of_a_kill_are_swept_and_another_writers_are_not(tmp_path: Path) -> None:
    for name, age in ((".part-dead", 7200), (".part-alive", 0)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    save(tmp_path, 5)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".part-alive", "round-000005"]


def test_a_whole_checkpoint_of_the_same_round_stands_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    save(tmp_path, 5)
    file = tmp_path / "round-000005" / "state.safetensors"
    written = file.stat().st_mtime_ns
    save(tmp_path, 5)
    assert file.stat().st_mtime_ns == written
    file.write_bytes(b"damaged")
    save(tmp_path, 5)
    assert checkpoint.latest(tmp_path, IDENTITY, LOG) is not None


def test_rows_that_are_no_numbers_survive(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, IDENTITY, {}, {"rows": [[1, float("nan"), float("inf")]]})
    _, progress = checkpoint.latest(tmp_path, IDENTITY, LOG) or ({}, None)
    assert math.isnan(progress["rows"][0][1]) and math.isinf(progress["rows"][0][2])


def test_no_folder_means_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "absent", IDENTITY, LOG) is None
