"""The two heavy jobs on a device that is not the CPU: files, checkpoints and tables know nothing of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from embedded import evaluate_in, small_run, stopping_after, train_in
from fedbayes.io import read_json, read_state
from pretend_gpu import GPU, PretendGpu


def test_a_run_is_trained_stopped_resumed_and_evaluated(tmp_path: Path) -> None:
    run, gpu = small_run(), str(GPU)
    with PretendGpu():
        calm = train_in(tmp_path / "calm", run, device=gpu)
        with stopping_after(2):
            train_in(tmp_path / "stopped", run, checkpoint_seconds=0, device=gpu)
        resumed = train_in(tmp_path / "stopped", run, device=gpu)
        evaluation, predictions = evaluate_in(resumed, run, resumed, device=gpu)
    for name in ("state.safetensors", "rounds.parquet"):
        assert (resumed / name).read_bytes() == (calm / name).read_bytes(), name
    assert read_json(resumed / "run.json")["hardware"]["device"] == GPU.type
    assert {tensor.device.type for tensor in read_state(resumed / "state.safetensors").values()} == {"cpu"}
    assert set(evaluation["state"]) == {"last", "best-pm", "best-gm"} and len(predictions)
    assert np.isfinite(evaluation["value"]).all() and np.isfinite(predictions["confidence"]).all()
