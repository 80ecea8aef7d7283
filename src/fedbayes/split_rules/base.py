"""What every split rule has: newcomers, a validation share, the server's own, and whether a dataset can serve it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from fedbayes.record import Record
from fedbayes.split_rules.facts import ClassFacts, Pool

Share = Annotated[float, Field(gt=0, lt=1)]
POOL = "Which part is dealt: the dataset's own training or test part, or both pooled."
TRAIN_SHARE = "Share of each client's samples that it trains on, rounded down; it is tested on the others."


def _rising(clients: tuple[int, ...]) -> tuple[int, ...]:
    """The clients, refused unless each is named once and in ascending order: one choice has one spelling."""
    if list(clients) != sorted(set(clients)):
        raise ValueError(f"found {list(clients)}; expected clients in rising order, each once")
    return clients


class SplitRecord(Record):
    """Base of every rule: what any split can have."""

    newcomers: Annotated[tuple[NonNegativeInt, ...], AfterValidator(_rising)] = Field(
        (), strict=False, description="Clients that never take part in training and are adapted afterwards."
    )
    validation: float = Field(
        0.0, ge=0, lt=1, description="Share of each client's training samples set aside for validation, rounded down."
    )
    server_share: float = Field(
        0.0, ge=0, lt=1, description="Share of each class that the server holds, unlabeled, before any are dealt out."
    )

    @model_serializer(mode="wrap")
    def _without_what_is_not_used(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A split without newcomers keeps the name it had before there were any.
        return {k: v for k, v in handler(self).items() if v or k not in ("newcomers", "validation", "server_share")}

    @property
    def population(self) -> int | None:
        """Number of clients; None where only the data can tell."""
        raise NotImplementedError

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Parts of the dataset the rule deals out."""
        return ("all",)

    @property
    def replicates(self) -> int:
        """Federations side by side, of equally many clients each; clients of one are neighbours."""
        return 1

    @property
    def tested(self) -> bool:
        """Whether clients have test samples."""
        return True

    def held_out(self) -> tuple[int, ...]:
        """Clients that never take part in training."""
        return self.newcomers

    def objection(self, facts: ClassFacts) -> str | None:
        """Why a dataset cannot be split so, or None."""
        facts = facts.without(self.server_share)
        if any(pool != "all" for pool in self.pools) and facts.test_per_class is None:
            return "it deals out the training and the test part, but the dataset has no test part of its own"
        if self.population is not None and (objection := self.objection_to_newcomers(self.population)):
            return objection
        return self.misfit(facts)

    def objection_to_newcomers(self, population: int) -> str | None:
        """Why so many clients cannot have these newcomers, or None."""
        for client in self.newcomers:
            if client >= population:
                return f"newcomers has client {client}, but there are only {population} clients, 0 first"
        if len(self.held_out()) >= population:
            return "newcomers leaves no client for training"
        return None

    def misfit(self, facts: ClassFacts) -> str | None:
        """The rule's own objection."""
        return None


class ClientsSplit(SplitRecord):
    """Base of rules that are told the number of clients."""

    clients: PositiveInt = Field(description="Number of clients.")

    @property
    def population(self) -> int:
        """Number of clients."""
        return self.clients


def too_many_labels(wanted: int, classes: int) -> str:
    """What is said of more labels than there are."""
    return f"labels_per_client is {wanted}, but the dataset has only {classes} classes"
