"""The specification of one cell: what its run is named by and reads, resolved from four places of the configuration.

An experiment says what all its cells share, a setting and a method change it, and a scale changes that again.
"""

from __future__ import annotations

from typing import Any

from fedbayes.config import Changes, ScaleChanges
from fedbayes.plan.by_schema import method_of, network_of
from fedbayes.plan.fit import check_fit, check_needs
from fedbayes.plan.inputs import preprocess_of, shift_of
from fedbayes.plan.known import Known
from fedbayes.plan.scales import SECTIONS, changed_sections, changed_split
from fedbayes.plan.where import Where
from fedbayes.plan.which_data import dataset_of
from fedbayes.reading import parse


def specification(known: Known, where: Where, preset: str, scale: ScaleChanges) -> dict[str, Any]:
    """Everything that changes the numbers of a cell but its seed, checked against the data's facts."""
    setting, entry = where.setting_record, where.method_entry
    dataset = dataset_of(known, where, scale)
    facts = known.datasets[dataset]
    everywhere, here = scale.of(where.experiment)
    sections = _sections(where, everywhere, here)
    split = changed_split(where, everywhere, here)
    check_fit(where, split, dataset, facts, sections)
    changes = entry.set | setting.set | everywhere.set.get(entry.method, {}) | here.set.get(entry.method, {})
    method = method_of(known, where, preset, changes)
    check_needs(known, where, split)
    return {
        "dataset": dataset,
        "split": split.model_dump(mode="json"),
        **shift_of(where, split, facts),
        "network": network_of(known, where),
        "preprocess": preprocess_of(where, facts),
        "method": method,
        **{name: section.model_dump(mode="json") for name, section in sections.items()},
    }


def _sections(where: Where, everywhere: Changes, here: Changes) -> dict[str, Any]:
    """The records of `SECTIONS`: of the experiment, changed by the setting, the method and the scale."""
    experiment, setting, entry = where.experiment_record, where.setting_record, where.method_entry
    own = experiment.training.model_dump() | setting.training | entry.training
    changed = changed_sections(everywhere, here, own["rounds"])
    return {
        name: parse(
            model,
            getattr(experiment, name).model_dump()
            | getattr(setting, name, {})
            | getattr(entry, name, {})
            | changed[name],
            where.file,
            f"{where} / {name}",
        )
        for name, model in SECTIONS.items()
    }
