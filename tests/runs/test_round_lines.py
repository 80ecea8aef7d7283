"""One line a round in the log: what it holds, and of how many of them people are told."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from embedded import evaluate_in, small_run, train_in
from fedbayes.runs.memory import peak_resident, shown_memory
from fedbayes.runs.train import _pause

LINE = re.compile(
    r"run [0-9a-f]{12} \w+ on mnist-5k seed 0: round (\d+)/4, loss \d+\.\d{4}, pm 0\.\d{4}, gm 0\.\d{4}, "
    r"\d+\.\d\d s, (\d+) MB, \d+ (s|min) left"
)


def test_every_round_has_a_line_with_seconds_and_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fedbayes")
    train_in(tmp_path, small_run())
    lines = [found for record in caplog.records if (found := LINE.fullmatch(record.getMessage()))]
    assert [int(found[1]) for found in lines] == [1, 2, 3, 4]
    assert 100 < int(lines[-1][2]) <= peak_resident() + 1
    # The first and the last are for people; those in between came too soon after the first.
    levels = [record.levelname for record in caplog.records if LINE.fullmatch(record.getMessage())]
    assert levels == ["INFO", "DEBUG", "DEBUG", "INFO"]


def test_an_evaluation_has_a_line_for_every_state_and_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = small_run()
    target = train_in(tmp_path, run)
    caplog.set_level(logging.INFO, "fedbayes")
    caplog.clear()
    evaluation, _ = evaluate_in(tmp_path, run, target)
    line = re.compile(rf"run {run.id}: state ([a-z-]+) of round (\d+), (\w+) accuracy (\d\.\d{{4}}), \d+ MB")
    told = {found.groups() for text in caplog.messages if (found := line.fullmatch(text))}
    pooled = evaluation.query("condition == 'clean' and client == -1 and metric == 'accuracy'")
    assert len(told) == 6 and told == {
        (row.state, str(row.round), row.model, f"{row.value:.4f}") for row in pooled.itertuples()
    }


def test_a_long_job_tells_people_of_few_rounds() -> None:
    """A day of rounds of a second each: a log of some hundred lines can be shown whole."""
    told, last = 0, 0.0
    for now in range(1, 86_401):
        if now - last >= _pause(now):
            told, last = told + 1, now
    assert 150 < told < 300 and _pause(0) == 5 and _pause(86_400) == 600


def test_memory_is_that_of_this_process_not_of_the_one_that_started_it() -> None:
    code = "from fedbayes.runs.memory import peak_resident; print(peak_resident())"
    held = torch.ones(2**28 // 4 * 3)  # 768 MB here, which getrusage would count there
    there = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert held.numel() and peak_resident() > 768 > there > 50


def test_memory_of_the_cpu_alone_is_shown_without_a_gpu() -> None:
    assert re.fullmatch(r"\d+ MB", shown_memory(torch.device("cpu")))
