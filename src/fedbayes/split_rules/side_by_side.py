"""The rule of experiments that are repeated: many small federations side by side, one dataset for all of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from fedbayes.split_rules.base import SplitRecord
from fedbayes.split_rules.facts import ClassFacts


class RepeatsSplit(SplitRecord):
    """User `clients * r + m` of the dataset is client m of repeat r and trains on all its samples (Self-FL, Figs. 4-6).

    Nothing is drawn and nobody is tested on samples: estimates are held against the truth, which the dataset knows.
    """

    rule: Literal["repeats"]
    clients: PositiveInt = Field(description="M, clients of each federation.")
    repeats: PositiveInt = Field(description="Federations side by side: the first of those the dataset holds.")

    @property
    def population(self) -> int:
        """Clients of all repeats."""
        return self.clients * self.repeats

    @property
    def replicates(self) -> int:
        """Federations side by side."""
        return self.repeats

    @property
    def tested(self) -> bool:
        """There is nothing to classify."""
        return False

    def misfit(self, facts: ClassFacts) -> str | None:
        """What a federation of its own cannot have; fewer samples than clients."""
        if self.newcomers or self.validation or self.server_share:
            return "newcomers, validation and server_share do not go with the rule 'repeats'"
        samples = facts.counts("all")
        if samples is not None and sum(samples) < self.population:
            return f"{self.repeats} repeats of {self.clients} clients need {self.population} users, more than samples"
        return None
