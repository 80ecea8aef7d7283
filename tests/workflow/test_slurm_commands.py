"""Commands of docs/cluster.md as typed, in a dry run: what they set takes nothing away from what rules need."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from artefacts import ROOT
from checkout import copy_project, snakemake

SIGNAL = "slurm_extra=--signal=TERM@180"


def documented(option: str) -> list[str]:
    """The arguments of the one command of the page that has an option."""
    page = (ROOT / "docs/cluster.md").read_text().replace("\\\n", " ")
    (line,) = (line for line in page.splitlines() if "snakemake --profile slurm" in line and option in line)
    return shlex.split(line.strip(), comments=True)[1:]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy whose dry run shows the resources of jobs: those of rules without a message."""
    clone = copy_project(tmp_path)
    for file in (clone / "workflow/rules").glob("*.smk"):
        file.write_text(re.sub(r"    message:\n.*\n", "", file.read_text()))
    return clone


def submitted(clone: Path, *arguments: str) -> list[tuple[str, list[str]]]:
    """The jobs that a dry run would submit: rule and resources of each."""
    done = snakemake(clone, *arguments, "-n")
    jobs = re.findall(r"rule (\w+):\n(?:    .*\n)*?    resources: (.*)\n", done.stdout)
    found = [(rule, resources.split(", ")) for rule, resources in jobs if rule in ("train", "evaluate")]
    assert {rule for rule, _ in found} == {"train", "evaluate"}
    return found


def test_account_and_partition_on_the_command_line_leave_training_its_signal(clone: Path) -> None:
    for rule, resources in submitted(clone, *documented("slurm_account=")):
        assert {"slurm_account=my-account", "slurm_partition=short"} <= set(resources)
        assert (SIGNAL in resources) == (rule == "train"), "an evaluation makes nothing of it"


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_further_attempt_asks_for_as_much_again(attempt: int, clone: Path) -> None:
    for rule, resources in submitted(clone, "--profile", "slurm", "--attempt", str(attempt)):
        assert {f"mem_mb={3000 * attempt}", f"runtime={60 * attempt}"} <= set(resources), rule


def test_what_the_command_line_sets_is_fixed_unless_it_names_the_attempt(clone: Path) -> None:
    fixed = [*documented("train:runtime=720"), "--attempt", "2"]
    growing = ["train:runtime=720*attempt" if word == "train:runtime=720" else word for word in fixed]
    for arguments, runtime in ((fixed, 720), (growing, 1440)):
        (resources,) = {tuple(resources) for rule, resources in submitted(clone, *arguments) if rule == "train"}
        assert {"mem_mb=8000", f"runtime={runtime}"} <= set(resources)


def test_groups_can_be_made_where_one_run_starts_from_another(clone: Path) -> None:
    """Training and evaluation then stand side by side in a group, which has one `slurm_extra`."""
    snakemake(clone, *documented("--groups"), "-n", "--config", "papers=[selffl]")
