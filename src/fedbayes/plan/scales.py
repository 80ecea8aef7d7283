"""What a scale runs of a paper, what it changes of that, and how its changes are said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedbayes.config import Changes, Config, Local, Paper, PaperScale, Protocol, ScaleChanges, Training
from fedbayes.plan.where import Where
from fedbayes.reading import parse
from fedbayes.split_rules import RECORDS, Split

# Kinds of keys a scale or a method entry may change, and the record that checks the result.
SECTIONS: dict[str, type[Training] | type[Local] | type[Protocol]] = {
    "training": Training,
    "local": Local,
    "protocol": Protocol,
}

# What scale `paper` changes; who has it takes the seeds from elsewhere.
UNCHANGED = ScaleChanges(seeds=(0,))


@dataclass(frozen=True)
class AtScale:
    """The scale that is planned, as one paper has it.

    Attributes:
        name: its name.
        changes: what it changes and runs; scale `paper` changes nothing and runs all.
        seeds: seeds of every cell.
    """

    name: str
    changes: ScaleChanges
    seeds: tuple[int, ...]

    def runs(self, where: Where) -> bool:
        """Whether the method is one of the setting's and the scale runs both."""
        methods = where.setting_record.methods
        if methods is not None and where.method not in methods:
            return False
        only = self.changes.only.get(where.experiment)
        if only is None:
            return True
        in_settings = only.settings is None or where.setting in only.settings
        return in_settings and (only.methods is None or where.method in only.methods)

    def presets(self, experiment: str) -> int | None:
        """How many presets of each method it runs; None for all."""
        only = self.changes.only.get(experiment)
        return only.presets if only else None


def at_scale(config: Config, paper: Paper) -> AtScale:
    """The scale that is asked for, with the seeds that are asked for or its own."""
    found: ScaleChanges | PaperScale = getattr(paper.scales, config.scale)
    changes = UNCHANGED if isinstance(found, PaperScale) else found
    return AtScale(config.scale, changes, config.seeds or found.seeds)


def changed_sections(everywhere: Changes, here: Changes, rounds: int) -> dict[str, dict[str, Any]]:
    """What a scale changes of an experiment's sections; one that has no more rounds keeps its rounds and window."""
    changed = {name: getattr(everywhere, name) | getattr(here, name) for name in SECTIONS}
    if changed["training"].get("rounds", 0) >= rounds:
        changed["training"].pop("rounds")
        changed["protocol"].pop("window", None)
    return changed


def changed_split(where: Where, *scale: Changes) -> Split:
    """The setting's split with what the scale changes: of every rule that has the key, and of this rule alone."""
    split = where.setting_record.split
    record, changes = RECORDS[split.rule], dict[str, Any]()
    for each in scale:
        changes |= {key: value for key, value in each.split.items() if key in record.model_fields}
        changes |= each.split.get(split.rule, {})
    return parse(record, split.model_dump() | changes, where.file, f"{where} / split")


def reduction(exact: dict[str, Any], actual: dict[str, Any]) -> str:
    """What a scale changed, in words made from the two specifications: `rounds 20 (paper 800)`."""
    changes = []
    for section in ("split", "training", "local", "protocol", "method"):
        for key in exact[section] | actual[section]:
            ours, theirs = (spec[section].get(key) for spec in (actual, exact))
            if ours != theirs:
                changes.append(f"{key} {_plain(ours)} (paper {_plain(theirs)})")
    return "; ".join(changes)


def _plain(value: object) -> str:
    return "-".join(map(str, value)) if isinstance(value, list) else str(value)
