"""What is known of a dataset's labels before it is opened."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, PositiveInt, model_validator

from fedbayes.record import Record

Pool = Literal["all", "train", "test"]


def floor(value: float) -> int:
    """Rounded down, where 0.1 * 1200 counts as 120 and 0.7 * 10 as 7, whatever their last binary digit."""
    return math.floor(value + 1e-9)


class ClassFacts(Record):
    """What is known of a dataset's labels before it is opened."""

    classes: PositiveInt = Field(description="Number of classes; where `per_class` is given it need not be written.")
    per_class: tuple[PositiveInt, ...] | None = Field(
        None, strict=False, description="Samples of each class, all parts pooled; empty where that is not known."
    )
    test_per_class: tuple[PositiveInt, ...] | None = Field(
        None,
        strict=False,
        description="How many of them are the dataset's own test part: the last ones of each class. Empty where there "
        "is no such part.",
    )

    @model_validator(mode="before")
    @classmethod
    def _count_classes(cls, found: Any) -> Any:
        if isinstance(found, Mapping) and found.get("per_class") and "classes" not in found:
            return {**found, "classes": len(found["per_class"])}
        return found

    @model_validator(mode="after")
    def _counts_agree(self) -> ClassFacts:
        for name in ("per_class", "test_per_class"):
            counts = getattr(self, name)
            if counts is not None and len(counts) != self.classes:
                raise ValueError(
                    f"{name} has {len(counts)} counts; expected one for each of the {self.classes} classes"
                )
        if self.per_class and self.test_per_class:
            for label, (whole, test) in enumerate(zip(self.per_class, self.test_per_class, strict=True)):
                if test >= whole:
                    raise ValueError(f"test_per_class leaves class {label} no training sample: {test} of {whole}")
        return self

    def without(self, share: float) -> ClassFacts:
        """What is left of each class when a share of it, rounded down, is taken from either part."""
        if not share or self.per_class is None:
            return self
        tests = self.test_per_class or (0,) * self.classes
        trains = [whole - test for whole, test in zip(self.per_class, tests, strict=True)]
        left = [tuple(n - floor(share * n) for n in part) for part in (trains, tests)]
        return ClassFacts(
            classes=self.classes,
            per_class=tuple(train + test for train, test in zip(*left, strict=True)),
            test_per_class=left[1] if self.test_per_class else None,
        )

    def counts(self, pool: Pool) -> tuple[int, ...] | None:
        """Samples of each class in a part; None where that is not known."""
        if self.per_class is None or pool == "all":
            return self.per_class
        if self.test_per_class is None:
            return None
        if pool == "test":
            return self.test_per_class
        return tuple(whole - test for whole, test in zip(self.per_class, self.test_per_class, strict=True))
