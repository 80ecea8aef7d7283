"""Names a scale changes or runs must exist, also those of other scales: a typo must not silently run less."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedbayes.config import Changes, Experiment, Paper, ScaleChanges
from fedbayes.plan.known import Known
from fedbayes.plan.scales import SECTIONS
from fedbayes.reading import choice, complain, kind
from fedbayes.split_rules import RECORDS


def check_scales(known: Known, file: str, paper: Paper) -> None:
    """Check the scales that change anything."""
    for name, scale in (("smoke", paper.scales.smoke), ("reduced", paper.scales.reduced)):
        _check_sections(known, file, f"scales.{name}", scale, paper.experiments.values())
        for key, changes in scale.experiments.items():
            at = f"scales.{name}.experiments"
            if key not in paper.experiments:
                raise complain(file, at, "unknown experiment: " + choice(key, paper.experiments))
            _check_sections(known, file, f"{at}.{key}", changes, [paper.experiments[key]])
        _check_only(file, paper, f"scales.{name}.only", scale)


def _check_sections(known: Known, file: str, at: str, changes: Changes, experiments: Iterable[Experiment]) -> None:
    """Changes to splits, to sections and to methods' fields name keys and methods that there are."""
    experiments = list(experiments)
    splits = [setting.split for experiment in experiments for setting in experiment.settings.values()]
    fields = {key for split in splits for key in (*type(split).model_fields, split.rule)}
    for key, value in changes.split.items():
        if key not in fields:
            raise complain(file, f"{at}.split", "unknown key: " + choice(key, fields))
        if key in RECORDS:
            _check_keys(file, f"{at}.split.{key}", value, RECORDS[key].model_fields)
    for section, model in SECTIONS.items():
        _check_keys(file, f"{at}.{section}", getattr(changes, section), model.model_fields)
    used = {entry.method for experiment in experiments for entry in experiment.methods.values()}
    for method, values in changes.set.items():
        if method not in used:
            raise complain(file, f"{at}.set", "unknown method: " + choice(method, used))
        _check_keys(file, f"{at}.set.{method}", values, known.schema["methods"][method]["properties"])


def _check_keys(file: str, at: str, changes: Any, fields: Mapping[str, Any]) -> None:
    """Changes are keys of a record."""
    if not isinstance(changes, dict):
        raise complain(file, at, f"expected keys and values; found {kind(changes)}")
    for key in changes:
        if key not in fields:
            raise complain(file, f"{at}.{key}", "unknown key: " + choice(key, fields))


def _check_only(file: str, paper: Paper, at: str, scale: ScaleChanges) -> None:
    """The part of an experiment that a scale runs is made of settings and methods that it has."""
    for key, only in scale.only.items():
        if key not in paper.experiments:
            raise complain(file, at, "unknown experiment: " + choice(key, paper.experiments))
        for part, known in (
            ("settings", paper.experiments[key].settings),
            ("methods", paper.experiments[key].methods),
        ):
            for item in getattr(only, part) or ():
                if item not in known:
                    raise complain(file, f"{at}.{key}.{part}", "unknown name: " + choice(item, known))
