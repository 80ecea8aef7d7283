"""Rules that give each client certain labels: pFedBayes, LR-BPFL, FedProx."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from fedbayes.split_rules.base import POOL, TRAIN_SHARE, ClientsSplit, Share, too_many_labels
from fedbayes.split_rules.facts import ClassFacts, Pool

# What FedProx's FEMNIST generator gives a client of each of its classes at the least.
LEAST_OF_A_CLASS = 2


class FixedLabelsSplit(ClientsSplit):
    """Base of rules by which a client's number decides its labels."""

    labels_per_client: PositiveInt

    def client_labels(self, client: int, classes: int) -> list[int]:
        """Labels of a client."""
        raise NotImplementedError

    def holders(self, classes: int) -> list[int]:
        """Clients that hold each class."""
        counts = [0] * classes
        for client in range(self.clients):
            for label in self.client_labels(client, classes):
                counts[label] += 1
        return counts


class PFedBayesSplit(FixedLabelsSplit):
    """Blocks of the pooled dataset, a few labels a client (pFedBayes, section 5.1 and its data generator)."""

    rule: Literal["pfedbayes"]
    labels_per_client: PositiveInt = Field(description="Labels each client holds.")
    train_per_class: PositiveInt = Field(description="Training samples of each class at each client.")
    test_per_class: PositiveInt = Field(description="Test samples of each class at each client.")
    stratified: bool = Field(
        description="True: exact counts per class. False: each client's data is shuffled as a whole and cut, as the "
        "public code does, so that counts per class hold only on average."
    )

    def client_labels(self, client: int, classes: int) -> list[int]:
        """Labels of a client: (k u + j) mod classes, j < k. With k = 5 of 10 this gives two groups only."""
        k = self.labels_per_client
        return [(k * client + j) % classes for j in range(k)]

    def misfit(self, facts: ClassFacts) -> str | None:
        """Too few labels, or too few samples of one."""
        classes = facts.classes
        if self.labels_per_client > classes:
            return too_many_labels(self.labels_per_client, classes)
        if facts.per_class is None:
            return None
        block = self.train_per_class + self.test_per_class
        for label, (wanted, available) in enumerate(zip(self.holders(classes), facts.per_class, strict=True)):
            if wanted * block > available:
                return (
                    f"class {label} must give {wanted} clients {block} samples each "
                    f"(train_per_class {self.train_per_class} + test_per_class {self.test_per_class}), "
                    f"{wanted * block} in all, but has only {available}"
                )
        return None


class LabelsSplit(ClientsSplit):
    """k of n labels a client, a class shared among its holders (LR-BPFL, section 5.1; PFLlib's `pat`)."""

    rule: Literal["labels"]
    labels_per_client: PositiveInt = Field(description="Labels each client holds.")
    holders: Literal["even", "ceil"] = Field(
        description="even: every client holds exactly its labels, and classes differ by one holder at most. ceil: each "
        "class takes ceil(K k / n) clients with free slots, as PFLlib does, so that late classes may find none left."
    )
    shares: Literal["equal", "random"] = Field(
        description="equal: holders of a class get equal shares. random: between a tenth of that and all of it, the "
        "last holder takes the rest, as PFLlib does where `balance` is off."
    )
    train_share: Share = Field(description=TRAIN_SHARE)
    pool: Pool = Field("all", description=POOL)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """One part."""
        return (self.pool,)

    def holders_of_a_class(self, classes: int) -> int:
        """The most clients that hold one class."""
        return min(self.clients, math.ceil(self.clients * self.labels_per_client / classes))

    def misfit(self, facts: ClassFacts) -> str | None:
        """Too few labels, or a class too small for its holders."""
        if self.labels_per_client > facts.classes:
            return too_many_labels(self.labels_per_client, facts.classes)
        # Both a training and a test sample of a class of least share: a tenth where shares are random.
        least = 2 if self.shares == "equal" else 20
        wanted = self.holders_of_a_class(facts.classes) * least
        for label, available in enumerate(facts.counts(self.pool) or ()):
            if available < wanted:
                holders = wanted // least
                return f"class {label} is shared by {holders} clients and needs {wanted} samples; it has {available}"
        return None


class PowerLawSplit(FixedLabelsSplit):
    """Consecutive labels a client and log-normal sizes (FedProx's generators for MNIST and FEMNIST)."""

    rule: Literal["power-law"]
    labels_per_client: PositiveInt = Field(description="Client u holds the classes u, u + 1, ... modulo their number.")
    sizes: Literal["shares", "samples"] = Field(
        description="shares: what is left of a class is shared in proportion to log-normal draws (MNIST). samples: a "
        "client's size is itself log-normal, spread evenly over its classes (FEMNIST)."
    )
    mu: float = Field(ge=-20, le=20, description="Mean of the logarithm.")
    sigma: float = Field(ge=0, le=20, description="Standard deviation of the logarithm.")
    least: NonNegativeInt = Field(
        description="Under shares: samples of each of its classes a client gets beforehand. Under samples: what is "
        "added to its size."
    )
    train_share: Share = Field(description=TRAIN_SHARE)

    def client_labels(self, client: int, classes: int) -> list[int]:
        """Classes of a client."""
        return [(client + j) % classes for j in range(self.labels_per_client)]

    def misfit(self, facts: ClassFacts) -> str | None:
        """Too few labels, or a class too small for what every holder gets beforehand."""
        classes = facts.classes
        if self.labels_per_client > classes:
            return too_many_labels(self.labels_per_client, classes)
        if self.sizes == "shares" and self.least * self.labels_per_client < 2:
            return f"least is {self.least}: every client needs a training and a test sample beforehand"
        if facts.per_class is None:
            return None
        each = self.least if self.sizes == "shares" else LEAST_OF_A_CLASS
        for label, (wanted, available) in enumerate(zip(self.holders(classes), facts.per_class, strict=True)):
            if wanted * each > available:
                return (
                    f"class {label} must give {wanted} clients {each} samples each beforehand, but has only {available}"
                )
        return None
