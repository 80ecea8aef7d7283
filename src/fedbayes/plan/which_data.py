"""Which datasets really run, by name: the ones a setting names, or their embedded sets where the scale says so."""

from __future__ import annotations

from collections.abc import Iterable

from fedbayes.config import ScaleChanges
from fedbayes.plan.cell import Cell
from fedbayes.plan.known import Known
from fedbayes.plan.where import Where
from fedbayes.reading import choice, complain


def dataset_of(known: Known, where: Where, scale: ScaleChanges) -> str:
    """The dataset that really runs in a setting."""
    at = f"experiments.{where.experiment}.settings.{where.setting}.dataset"
    return _running(known, where, at, where.setting_record.dataset, scale.embedded_data)


def outsiders_of(known: Known, where: Where, scale: ScaleChanges) -> str:
    """The dataset of unknown classes that really runs, checked beside the one that is known; empty without one.

    No part of a run's specification: it is looked at after training.
    """
    setting = where.setting_record
    if setting.outsiders is None:
        return ""
    at = f"experiments.{where.experiment}.settings.{where.setting}.outsiders"
    found, trained_on = (
        _running(known, where, at, name, scale.embedded_data) for name in (setting.outsiders, setting.dataset)
    )
    facts = known.datasets[found]
    if found == trained_on:
        raise complain(where.file, at, f"found {found!r}, which is trained on; expected a dataset of other classes")
    if len(facts.shape) != 3 or facts.shape != known.datasets[trained_on].shape:
        shapes = f"its samples have the shape {facts.shape}, those of {trained_on!r} {known.datasets[trained_on].shape}"
        raise complain(where.file, at, f"found {found!r}; {shapes}; expected images of the same shape")
    if facts.test_per_class is None:
        raise complain(where.file, at, f"found {found!r}, which has no test part of its own")
    return found


def _running(known: Known, where: Where, at: str, name: str, embedded: bool) -> str:
    """What runs in a dataset's place: itself, or its embedded set."""
    if name not in known.datasets:
        raise complain(where.file, at, "unknown dataset: " + choice(name, known.datasets))
    if not embedded:
        return name
    found = known.datasets[name].embedded
    if found is None:
        raise complain("config/datasets.yaml", f"{name}.embedded", "names no embedded set for smoke")
    return found


def titles_of(known: Known, dataset: str) -> tuple[str, str]:
    """What people call a dataset, and the one it stands in for, if any."""
    facts = known.datasets[dataset]
    return facts.title, known.datasets[facts.stand_in_for].title if facts.stand_in_for else ""


def check_outsiders(cells: Iterable[Cell]) -> None:
    """A run is evaluated once: cells that share it must not ask for different outsiders."""
    asked: dict[str, Cell] = {}
    for cell in cells:
        other = asked.setdefault(cell.run.id, cell) if cell.outsiders else cell
        if other.outsiders != cell.outsiders:
            file, at = f"config/papers/{cell.paper}.yaml", f"experiments.{cell.experiment}.settings.{cell.setting}"
            shared = f"but {other.paper}'s {other.experiment} / {other.setting} has the same run"
            found = f"found {cell.outsiders!r}, {shared} with {other.outsiders!r}; expected one of them"
            raise complain(file, f"{at}.outsiders", found)
