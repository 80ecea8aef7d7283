"""Two rules side by side: clients that train, and newcomers from another part of the dataset."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from fedbayes.split_rules.base import SplitRecord
from fedbayes.split_rules.by_chance import DirichletSplit, IidSplit
from fedbayes.split_rules.by_label import LabelsSplit
from fedbayes.split_rules.facts import ClassFacts, Pool

# What can be joined below: rules that deal out a part of their own.
PartSplit: TypeAlias = Annotated[LabelsSplit | DirichletSplit | IidSplit, Field(discriminator="rule")]


class JoinedSplit(SplitRecord):
    """Clients that train, and newcomers dealt by a rule of their own from another part (LR-BPFL, section 5.4)."""

    rule: Literal["joined"]
    trained: PartSplit = Field(description="The split of the clients that train.")
    new: PartSplit = Field(description="The split of the newcomers, whose numbers follow those of the others.")

    @property
    def population(self) -> int:
        """Clients of both."""
        return self.trained.population + self.new.population

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Two parts."""
        return (self.trained.pool, self.new.pool)

    def held_out(self) -> tuple[int, ...]:
        """All clients of the second split."""
        return tuple(range(self.trained.population, self.population))

    def misfit(self, facts: ClassFacts) -> str | None:
        """Parts that overlap, numbers that belong to the whole, or an objection of one of the two."""
        if set(self.pools) != {"train", "test"}:
            return f"the two splits must deal out 'train' and 'test'; found {self.trained.pool!r} and {self.new.pool!r}"
        if self.newcomers or self.trained.newcomers or self.new.newcomers:
            return "newcomers are all clients of 'new'; the key itself must stay empty"
        if self.trained.validation or self.new.validation:
            return "validation belongs to the joined split, not to its two parts"
        if self.trained.server_share or self.new.server_share:
            return "server_share belongs to the joined split, not to its two parts"
        for name, part in (("trained", self.trained), ("new", self.new)):
            if objection := part.objection(facts):
                return f"{name}: {objection}"
        return None
