"""Files appear whole or not at all, and the same values give the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedbayes.io import read_state, replacing, write_state


def test_the_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(3.0), "a": torch.ones(2, 2)}
    written = set()
    for _ in range(50):
        write_state(tmp_path / "state", dict(reversed(tensors.items())), "run x, code y")
        written.add((tmp_path / "state").read_bytes())
    assert len(written) == 1
    assert torch.equal(read_state(tmp_path / "state")["b"], torch.arange(3.0))


def test_one_tensor_under_two_names_is_written_twice(tmp_path: Path) -> None:
    shared = torch.ones(3)
    write_state(tmp_path / "state", {"last": shared, "best": shared})
    assert read_state(tmp_path / "state").keys() == {"last", "best"}


def test_a_failed_writer_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(RuntimeError), replacing(tmp_path / "file") as part:
        part.write_text("half")
        raise RuntimeError
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "old")]
