"""A copy of the project whose files a test may edit, and Snakemake as a user would call it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from artefacts import ROOT

PARTS = ("Snakefile", "workflow", "config", "profiles", "slurm", "src", "pyproject.toml", "data.dvc")


def copy_project(target: Path, paper: str = "pfedbayes") -> Path:
    """The project's own files at `target`, links as links, without results, set to run one paper."""
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir() and not source.is_symlink():
            others = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, target / part, symlinks=True, ignore=others)
        else:
            shutil.copy(source, target / part, follow_symlinks=False)
    config = target / "config/config.yaml"
    text = re.sub(r"^papers: .*$", f"papers: [{paper}]", config.read_text(), flags=re.MULTILINE)
    config.write_text(text)
    return target


def command(folder: Path, *arguments: str, **environment: str) -> tuple[list[str], dict[str, str]]:
    """What starts `snakemake` in a copy of the project with that copy's own sources: words and environment."""
    clean = {k: v for k, v in os.environ.items() if k not in ("MLFLOW_TRACKING_URI", "FEDBAYES_DATA")}
    words = [str(Path(sys.executable).parent / "snakemake"), *arguments]
    return words, clean | {"PYTHONPATH": str(folder / "src")} | environment


def snakemake(
    folder: Path, *arguments: str, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `snakemake` in a copy of the project."""
    words, variables = command(folder, *arguments, **environment)
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=880)
    if check and done.returncode != 0:
        raise AssertionError(f"snakemake {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return done


def snakemake_process(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The same, at work while the test goes on; all it says is one stream."""
    words, variables = command(folder, *arguments)
    return subprocess.Popen(
        words, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def planned(folder: Path, *arguments: str, **environment: str) -> dict[str, int]:
    """Jobs a dry run would start, by rule; empty when there is nothing to do."""
    text = snakemake(folder, "--quiet", "rules", "-n", *arguments, **environment).stdout
    lines = [line.split() for line in text.splitlines()]
    jobs = {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}
    jobs.pop("total", None)
    return jobs
