"""`make status`: what became of every run of the plan, and what to type where something is wrong."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fedbayes import slurm_runs
from fedbayes.plan import load_plan
from fedbayes.reading import ConfigError, complain, read_yaml
from fedbayes.status.jobs import Jobs
from fedbayes.status.other_jobs import other_jobs
from fedbayes.status.runs import run_states
from fedbayes.status.text import status_text


def main(arguments: Sequence[str], root: Path) -> str:
    """The text for a command line; `root` holds `config/`."""
    parser = argparse.ArgumentParser(prog="python -m fedbayes.status", description=__doc__)
    parser.add_argument("choices", nargs="*", metavar="KEY=VALUE", help="as after snakemake --config: scale=paper")
    parser.add_argument("--config", nargs="+", metavar="KEY=VALUE", default=[], help="the same")
    parser.add_argument("--configfile", metavar="FILE", help="as of snakemake: its keys win over config/config.yaml")
    parser.add_argument("--directory", type=Path, default=Path(), help="as of snakemake: where results/ and logs/ are")
    parser.add_argument("--missing", action="store_true", help="list outdated and missing runs, too")
    asked = parser.parse_args(arguments)
    plan = load_plan(_config(root, asked.configfile, pairs := [*asked.choices, *asked.config]), root)
    jobs = Jobs(asked.directory)
    runs = run_states(plan, jobs)
    choices = [
        *(["--configfile", asked.configfile] if asked.configfile else []),
        *(["--directory", str(asked.directory)] if asked.directory != Path() else []),
        *(["--config", *pairs] if pairs else []),
    ]
    campaign = slurm_runs.may_live(asked.directory)
    return status_text(plan, runs, other_jobs(plan, jobs, runs), choices, asked.missing, campaign)


def _config(root: Path, file: str | None, pairs: Sequence[str]) -> dict[str, Any]:
    """What Snakemake would make of the same choices: later ones win, and a mapping changes only the keys it has."""
    config = read_yaml(root / "config/config.yaml", "config/config.yaml")
    layers = [read_yaml(Path(file), file)] if file else []
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign:
            raise complain("make status", "", f"found {pair!r}; expected KEY=VALUE, such as scale=paper")
        layers.append({key: yaml.safe_load(value)})
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, dict) and isinstance(config.get(key), dict)
            config[key] = config[key] | value if both else value
    return config


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make status | head` is no mistake
    try:
        print(main(sys.argv[1:], Path()))
    except ConfigError as error:
        sys.exit(f"fedbayes: {error}")
