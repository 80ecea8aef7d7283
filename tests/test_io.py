"""Files appear whole or not at all, and the same values give the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from fedbayes.io import read_state, replacing, stored_bytes, write_state


def test_the_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(3.0), "a": torch.ones(2, 2)}
    written = set()
    for _ in range(50):
        write_state(tmp_path / "state", dict(reversed(tensors.items())), "run x, code y")
        written.add((tmp_path / "state").read_bytes())
    assert len(written) == 1
    assert torch.equal(read_state(tmp_path / "state")["b"], torch.arange(3.0))


def test_equal_tensors_are_stored_once_and_read_under_every_name(tmp_path: Path) -> None:
    best = torch.arange(1000.0)
    nearly = torch.cat([best[:-1], torch.tensor([-1.0])])
    state = {"best": best, "last": best.clone(), "nearly": nearly, "zero": torch.zeros(9), "minus": -torch.zeros(9)}
    state |= {"shaped": best.view(10, 100), "nan": torch.full((9,), torch.nan), "nan2": torch.full((9,), torch.nan)}
    write_state(tmp_path / "state", state, "about")
    found = read_state(tmp_path / "state")
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        assert found[name].numpy().tobytes() == tensor.numpy().tobytes() and found[name].shape == tensor.shape
    # shaped's bytes are best's, but it has another shape.
    expected = {"best": 4000, "shaped": 4000, "nearly": 4000, "zero": 36, "minus": 36, "nan": 36}
    assert stored_bytes(tmp_path / "state") == expected


def test_parts_of_one_tensor_are_written_as_they_are(tmp_path: Path) -> None:
    whole = torch.arange(12.0)
    state = {"whole": whole, "part": whole[4:8], "turned": whole.view(3, 4).T, "alone": torch.arange(9.0)[2:5]}
    write_state(tmp_path / "state", state)
    found = read_state(tmp_path / "state")
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())


MEASURED = """
import sys, torch
from pathlib import Path
from fedbayes.io import read_state, write_state
from fedbayes.runs.memory import peak_resident
file, size = Path(sys.argv[1]), 2**24
state = {str(n): torch.full((size,), float(n)) for n in range(4)}
before = peak_resident()
write_state(file, state)
written = peak_resident()
del state
read_state(file)
print(written - before, peak_resident() - written)
"""


def test_a_large_state_is_written_and_read_without_copies_of_the_whole(tmp_path: Path) -> None:
    run = [sys.executable, "-c", MEASURED, str(tmp_path / "state")]
    writing, reading = map(float, subprocess.run(run, check=True, capture_output=True, text=True).stdout.split())
    # 256 MB in four tensors: each copy of the whole would be as much again.
    # What is read stands beside the pages of its file.
    assert writing < 64 and reading < 320


def test_files_of_before_are_read(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(save({"a": torch.ones(2)}, {"fedbayes": "run x, code y"}))
    assert read_state(tmp_path / "state")["a"].tolist() == [1.0, 1.0]


def test_a_failed_writer_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(RuntimeError), replacing(tmp_path / "file") as part:
        part.write_text("half")
        raise RuntimeError
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "old")]
