"""How stored samples become inputs of a network: shifted as a client sees them, and preprocessed."""

from __future__ import annotations

from typing import Any

from fedbayes.config import DatasetFacts
from fedbayes.plan.where import Where
from fedbayes.reading import complain
from fedbayes.split_rules import SHARED_SAMPLES, Split


def shift_of(where: Where, split: Split, facts: DatasetFacts) -> dict[str, Any]:
    """The setting's shift; nothing at all without one, so that other runs keep the names they had."""
    shift, preprocess = where.setting_record.shift, where.experiment_record.preprocess
    if shift is None:
        return {}
    if objection := shift.objection(facts.shape, split.population):
        raise complain(where.file, f"{where} / shift", f"cannot be made from {facts.title}: {objection}")
    at = f"experiments.{where.experiment}.preprocess"
    if preprocess.kind != "channels":
        raise complain(where.file, f"{at}.kind", f"found {preprocess.kind!r}; shifted images need 'channels'")
    if split.rule in SHARED_SAMPLES:
        raise complain(where.file, f"{where} / shift", f"clients of the rule {split.rule!r} may share samples")
    if shift.wraps_around and (set(preprocess.mean or ()), set(preprocess.std or ())) != ({0.0}, {1.0}):
        raise complain(where.file, at, "images that wrap around are not normalised again: expected mean 0, std 1")
    return {"shift": shift.model_dump(mode="json")}


def preprocess_of(where: Where, facts: DatasetFacts) -> dict[str, Any]:
    """The experiment's preprocessing, which must be of the dataset's kind of samples."""
    preprocess, at = where.experiment_record.preprocess, f"experiments.{where.experiment}.preprocess"
    images = preprocess.kind in ("channels", "pixelwise")
    if images != (len(facts.shape) == 3):
        what = "images (channel, height, width)" if images else "texts and features (position,)"
        found = f"the kind {preprocess.kind!r} is for {what}; a sample of {facts.title} has shape {facts.shape}"
        raise complain(where.file, f"{at}.kind", found)
    for key in ("mean", "std"):
        values = getattr(preprocess, key)
        if values is not None and len(values) not in (1, facts.shape[0]):
            allowed = f"allowed: 1 or {facts.shape[0]}, one a channel"
            raise complain(where.file, f"{at}.{key}", f"found {len(values)} values; {allowed}")
    return preprocess.model_dump(mode="json")
