"""Both sides of every job compute the same; what is written has its fields. No time is asserted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor

from artefacts import ROOT
from fedbayes.benchmark import __main__ as command
from fedbayes.benchmark.jobs import build
from fedbayes.benchmark.settings import JOBS, PFEDBAYES, Setting
from fedbayes.federation import rng
from fedbayes.io import read_json

SETTINGS = [(name, setting) for name, settings in JOBS.items() for setting in settings]


def tiny(setting: Setting) -> Setting:
    """A job whose clients walk round their data in two rounds, in whole batches as the real ones, exact to rounding."""
    samples = 3 if setting.work == "evaluation" else 12
    return setting._replace(
        clients=3, batch=4, steps=4, rounds=2, samples=samples, chunk=setting.chunk and 2, compiled=False,
        dtype=torch.float64,
    )  # fmt: skip


def keyed(like: Tensor, round_: int, client: int, batch: int, inner: int) -> Tensor:
    """The engine's noise: a visit's first phase has number 1."""
    key = rng.fold(rng.root(0, "train"), round_, client, 1, batch, inner)
    return rng.normal(key, len(like), like.dtype)


@pytest.mark.parametrize(("name", "setting"), SETTINGS, ids=[setting.title for _, setting in SETTINGS])
def test_engine_and_plain_loop_compute_the_same(name: str, setting: Setting) -> None:
    job = build(tiny(setting), keyed)
    ours, plain = job.ours(), job.plain()
    assert ours.keys() == plain.keys() and len(ours) > 1
    for part, expected in plain.items():
        torch.testing.assert_close(ours[part], expected, rtol=0, atol=1e-9)
    assert job.lifting.kind == ("loop" if setting.network == "cnn" else "vmap")


def test_pfedbayes_is_measured_as_the_reference_preset_runs_it() -> None:
    presets = yaml.safe_load((ROOT / "config/methods/pfedbayes.yaml").read_text())["presets"]
    assert presets["reference"] == PFEDBAYES


def test_arithmetic_of_a_step_by_hand() -> None:
    (setting,) = JOBS["a"]
    # Forward 784x100 and 100x10; backward the gradients of both weights and of the hidden layer.
    assert setting._replace(clients=1, steps=1, rounds=1).flops == 2 * 100 * (2 * 78_400 + 3 * 1000)
    assert setting.client_steps == 10 * 20 * setting.rounds


def test_the_file_has_every_repeat_and_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "JOBS", {"a": tuple(map(tiny, JOBS["a"])), "b": ()})
    monkeypatch.setattr(command, "start_up", lambda: {"seconds": 1.0})
    command.main([str(tmp_path / "benchmark.json"), "--jobs", "a", "--repeats", "2"])
    written = read_json(tmp_path / "benchmark.json")
    assert written.keys() == {"machine", "versions", "sgemm_flops", "start_up", "jobs"}
    (job,) = written["jobs"]
    assert job["job"] == "a" and len(job["ours_seconds"]) == len(job["plain_seconds"]) == len(job["ratio"]["all"]) == 2
    assert job["ratio"]["min"] <= job["ratio"]["median"] <= job["ratio"]["max"]
    assert job["peak_mib"] > 0 and 0 < job["share_of_peak"] < 1 and job["lifting"] == "vmap, eager"


def test_an_unknown_job_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--jobs", "a,zz"])
    assert "found zz, expected some of a, b" in capsys.readouterr().err
