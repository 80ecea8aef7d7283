"""The papers that are asked for: their files, whose claims are checked, and the experiments of them that are wanted."""

from __future__ import annotations

from fedbayes.config import Config, Paper
from fedbayes.plan.known import Known
from fedbayes.plan.scale_checks import check_scales
from fedbayes.reading import choice, complain, parse, read_yaml

# How complaints call what Snakemake hands over.
ASKED = "config/config.yaml (or --config)"


def read_papers(known: Known, config: Config) -> dict[str, Paper]:
    """The papers that are asked for, by key, with all that their files have."""
    return {key: _read_paper(known, key) for key in config.papers}


def _read_paper(known: Known, key: str) -> Paper:
    there = sorted(file.stem for file in (known.root / "config/papers").glob("*.yaml"))
    if key not in there:
        raise complain(ASKED, "papers", "unknown paper: " + choice(key, there))
    file = f"config/papers/{key}.yaml"
    paper = parse(Paper, read_yaml(known.root / file, file), file)
    check_scales(known, file, paper)
    _check_methods(file, paper)
    _check_printed(known, file, paper)
    return paper


def _check_methods(file: str, paper: Paper) -> None:
    """Methods a setting names must be methods of its experiment."""
    for key, experiment in paper.experiments.items():
        for name, setting in experiment.settings.items():
            for label in setting.methods or ():
                if label not in experiment.methods:
                    at = f"experiments.{key}.settings.{name}.methods"
                    raise complain(file, at, "unknown method: " + choice(label, experiment.methods))


def _check_printed(known: Known, file: str, paper: Paper) -> None:
    """What an experiment says it reproduces must have been printed: a typo would compare nothing."""
    printed = known.printed.get(paper.name)
    if printed is None:
        raise complain(file, "name", "not in config/published.csv: " + choice(paper.name, known.printed))
    for key, experiment in paper.experiments.items():
        at, table = f"experiments.{key}", experiment.published_table
        if table is not None and table not in printed:
            raise complain(file, f"{at}.published_table", choice(table, printed))
        columns = printed[table] if table is not None else set()
        for name, setting in experiment.settings.items():
            for place in setting.places() if setting.published else ():
                if f"{place.dataset} / {place.setting}" not in columns:
                    found = choice(f"{place.dataset} / {place.setting}", columns)
                    raise complain(file, f"{at}.settings.{name}.published", f"no such column of {table}: {found}")


def wanted(asked: tuple[str, ...] | None, papers: dict[str, Paper]) -> dict[str, Paper]:
    """The papers with the experiments that are asked for, and with those their relative metrics compare with."""
    if asked is None:
        return papers
    there = dict.fromkeys(name for paper in papers.values() for name in paper.experiments)
    for name in asked:
        if name not in there:
            raise complain(ASKED, "experiments", "unknown experiment: " + choice(name, there))
    parts = {}
    for key, paper in papers.items():
        own = {name: paper.experiments[name] for name in asked if name in paper.experiments}
        if not own:
            found = f"none of them is in config/papers/{key}.yaml: {choice(asked[0], paper.experiments)}"
            raise complain(ASKED, "experiments", found)
        needed = {*own, *(e.baseline.experiment for e in own.values() if e.baseline)}
        kept = {name: experiment for name, experiment in paper.experiments.items() if name in needed}
        parts[key] = paper.model_copy(update={"experiments": kept})
    return parts
