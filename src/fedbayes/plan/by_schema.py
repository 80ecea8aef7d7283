"""Networks and methods with all their fields, by the generated schema: their modules would need torch."""

from __future__ import annotations

from typing import Any

from fedbayes.plan.known import Known
from fedbayes.plan.where import Where
from fedbayes.reading import choice, complain, fill


def network_of(known: Known, where: Where) -> dict[str, Any]:
    """The experiment's network and its sizes."""
    model, at = where.experiment_record.model, f"experiments.{where.experiment}.model"
    networks = known.schema["networks"]
    if model.name not in networks:
        raise complain(where.file, f"{at}.name", "unknown network: " + choice(model.name, networks))
    own = {k: v for k, v in model.model_dump().items() if k != "name"}
    return {"name": model.name} | fill(networks[model.name], own, where.file, at)


def method_of(known: Known, where: Where, preset: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The method's fields: the preset's values, changed by `set` of the entry, of the setting and of the scale."""
    name, at = where.method_entry.method, f"experiments.{where.experiment}.methods.{where.method}"
    methods = known.schema["methods"]
    if name not in methods:
        hint = ""
        if (known.root / f"src/fedbayes/methods/{name}.py").exists():
            hint = " (its file exists: run 'make schema' to have it known)"
        raise complain(where.file, f"{at}.method", "unknown method: " + choice(name, methods) + hint)
    presets = known.presets_of(name)
    if preset not in presets:
        raise complain(where.file, f"{at}.presets", "unknown preset: " + choice(preset, presets))
    filled = fill(methods[name], presets[preset] | changes, where.file, f"{at}.set")
    return {"name": name} | _named(methods[name]["properties"], filled)


def _named(fields: dict[str, Any], filled: dict[str, Any]) -> dict[str, Any]:
    """Without the fields that came later and say what was so before: runs of that time keep their names."""
    return {k: v for k, v in filled.items() if not (fields[k].get("later") and v == fields[k]["default"])}


def marks_of(known: Known, method: dict[str, Any]) -> str:
    """Values of a method's fields whose schema says that they mark a result: `adapted on test data`."""
    fields = known.schema["methods"][method["name"]]["properties"]
    found = [field["marks"].get(str(method[name])) for name, field in fields.items() if "marks" in field]
    return ", ".join(filter(None, found))
