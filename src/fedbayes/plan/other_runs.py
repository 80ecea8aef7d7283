"""Runs that a cell needs beside its own: the one it begins with, and the one its relative metrics compare with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedbayes.plan.known import Known
from fedbayes.plan.scales import AtScale
from fedbayes.plan.specification import specification
from fedbayes.plan.where import Where
from fedbayes.reading import choice, complain


def baseline_of(known: Known, where: Where, scale: AtScale) -> dict[str, Any] | None:
    """What the experiment's relative metrics compare with, but for the seed: the baseline on the same dataset."""
    named, experiments = where.experiment_record.baseline, where.content.experiments
    if named is None:
        return None
    at = f"experiments.{where.experiment}.baseline"
    if named.experiment not in experiments:
        found = choice(named.experiment, experiments)
        raise complain(where.file, f"{at}.experiment", f"unknown experiment: {found}")
    dataset = where.setting_record.dataset
    there = experiments[named.experiment].settings
    settings = [key for key, setting in there.items() if setting.dataset == dataset]
    if len(settings) != 1:
        found = f"{named.experiment!r} has {len(settings)} settings on {dataset!r}; expected one"
        raise complain(where.file, f"{at}.experiment", found)
    needed = replace(where, experiment=named.experiment, setting=settings[0], method=named.method)
    return _first_preset(known, needed, f"{at}.method", scale)


def start_of(known: Known, where: Where, scale: AtScale) -> dict[str, Any] | None:
    """What a warm-started method begins with, but for the seed: another method's run in the same setting."""
    named, methods = where.method_entry.warm_start, where.experiment_record.methods
    if named is None:
        return None
    at = f"experiments.{where.experiment}.methods.{where.method}.warm_start"
    if named in methods and methods[named].warm_start:
        raise complain(where.file, at, f"found {named!r}, which has a warm start itself; expected one from scratch")
    return _first_preset(known, replace(where, method=named), at, scale)


def _first_preset(known: Known, needed: Where, at: str, scale: AtScale) -> dict[str, Any]:
    """The specification, but for the seed, of a run that another one needs: the first preset of a method.

    Args:
        known: what there is.
        needed: the cell that is needed.
        at: the key that names it.
        scale: what is planned; it must run that cell, too.
    """
    methods = needed.experiment_record.methods
    if needed.method not in methods:
        raise complain(needed.file, at, "unknown method: " + choice(needed.method, methods))
    if not scale.runs(needed):
        found = f"found {needed.method!r}, which scale {scale.name} does not run in {needed.setting!r}"
        raise complain(needed.file, at, found)
    return specification(known, needed, methods[needed.method].presets[0], scale.changes)
