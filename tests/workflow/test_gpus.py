"""GPUs as Snakemake sees them: counted by the resource `gpu`, handed out by the jobs' own locks."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from artefacts import ROOT
from checkout import copy_project, snakemake
from fedbayes.config import Execution

SNAKEFILE = """
rule all:
    input:
        expand("{job}.txt", job=range(6)),


rule claim:
    output:
        "{job}.txt",
    resources:
        gpu=1,
    script:
        "claim.py"
"""

CLAIM = """
import logging
import time
from pathlib import Path

from fedbayes.config import Execution
from fedbayes.devices import Gpus, claimed


def have_met():
    devices = {file.read_text() for file in Path().glob("*.claim")}
    waits = any("waiting" in file.read_text() for file in Path().glob("*.log"))
    return len(devices) == 2 and (waits or snakemake.config["counted"])


logging.basicConfig(filename=f"{snakemake.output[0]}.log", level=logging.INFO, format="%(message)s")
with claimed(Execution(device="cuda"), Gpus(("GPU-a", "GPU-b")), Path("locks")) as execution:
    begin = time.monotonic()
    Path(f"{snakemake.output[0]}.claim").write_text(execution.device)
    # However late the others start: both GPUs are taken at once, and where nobody counts somebody waits for one.
    while not have_met() and time.monotonic() < begin + 200:
        time.sleep(0.05)
    end = time.monotonic()
Path(snakemake.output[0]).write_text(f"{execution.device} {begin} {end}")
"""


@pytest.mark.slow
@pytest.mark.parametrize("counted", [True, False])
def test_jobs_of_a_real_snakemake_never_meet_on_a_gpu(counted: bool, tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "claim.py").write_text(CLAIM)
    limit = ["--resources", "gpu=2"] if counted else []
    arguments = ("--cores", "6", *limit, "--config", f"counted={counted}")
    snakemake(tmp_path, *arguments, PYTHONPATH=str(ROOT / "src"))
    claims = [(tmp_path / f"{job}.txt").read_text().split() for job in range(6)]
    assert {device for device, *_ in claims} == {"cuda:0", "cuda:1"}
    for device in ("cuda:0", "cuda:1"):
        own = sorted((float(begin), float(end)) for found, begin, end in claims if found == device)
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(own))
    waited = sum("waiting" in (tmp_path / f"{job}.txt.log").read_text() for job in range(6))
    # Where Snakemake counts, it starts no job that would find no GPU; where it does not, the locks keep them apart.
    assert (waited == 0) == counted


@pytest.mark.parametrize(("device", "gpus"), [("cpu", 0), ("auto", 0), ("cuda", 1), ("cuda:1", 1), ("mps", 1)])
def test_a_device_says_how_many_gpus_a_job_claims(device: str, gpus: int) -> None:
    assert Execution(device=device).gpus == gpus


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_training_and_evaluation_ask_for_the_gpus_of_their_device(device: str, tmp_path: Path) -> None:
    clone = copy_project(tmp_path)
    for file in (clone / "workflow/rules").glob("*.smk"):
        # A dry run shows the resources of rules without a message.
        file.write_text(re.sub(r"    message:\n.*\n", "", file.read_text()))
    done = snakemake(clone, "-n", "--profile", "slurm", "--config", f"execution={{device: {device}}}")
    jobs = re.findall(r"rule (\w+):\n(?:    .*\n)*?    resources: (.*)\n", done.stdout)
    asked = {(rule, gpu) for rule, resources in jobs for gpu in re.findall(r"\bgpu=(\d+)", resources)}
    gpus = str(Execution(device=device).gpus)
    assert asked == {("train", gpus), ("evaluate", gpus)}
