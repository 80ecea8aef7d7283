"""Rules by which a dataset is split over clients: their numbers, their names, and whether a dataset can serve them.

Counted in code digests (unlike `config.py`), because who holds which label is decided here. Each record has a function
of the same `rule` in `data/rules/`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from fedbayes.record import Record

Share = Annotated[float, Field(gt=0, lt=1)]
Pool = Literal["all", "train", "test"]
POOL = "Which part is dealt: the dataset's own training or test part, or both pooled."
TRAIN_SHARE = "Share of each client's samples that it trains on, rounded down; it is tested on the others."


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

    def counts(self, pool: Pool) -> tuple[int, ...] | None:
        """Samples of each class in a part; None where that is not known."""
        if self.per_class is None or pool == "all":
            return self.per_class
        if self.test_per_class is None:
            return None
        if pool == "test":
            return self.test_per_class
        return tuple(whole - test for whole, test in zip(self.per_class, self.test_per_class, strict=True))


class SplitRecord(Record):
    """Base of every rule: what any split can have."""

    newcomers: tuple[NonNegativeInt, ...] = Field(
        (), strict=False, description="Clients that never take part in training and are adapted afterwards."
    )
    validation: float = Field(
        0.0, ge=0, lt=1, description="Share of each client's training samples set aside for validation, rounded down."
    )

    @model_serializer(mode="wrap")
    def _without_what_is_not_used(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A split without newcomers keeps the name it had before there were any.
        return {k: v for k, v in handler(self).items() if v or k not in ("newcomers", "validation")}

    @property
    def population(self) -> int | None:
        """Number of clients; None where only the data can tell."""
        raise NotImplementedError

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Parts of the dataset the rule deals out."""
        return ("all",)

    def held_out(self) -> tuple[int, ...]:
        """Clients that never take part in training."""
        return self.newcomers

    def objection(self, facts: ClassFacts) -> str | None:
        """Why a dataset cannot be split so, or None."""
        if any(pool != "all" for pool in self.pools) and facts.test_per_class is None:
            return "it deals out the training and the test part, but the dataset has no test part of its own"
        if self.population is not None:
            for client in self.newcomers:
                if client >= self.population:
                    return f"newcomers has client {client}, but there are only {self.population} clients, 0 first"
            if len(set(self.held_out())) >= self.population:
                return "newcomers leaves no client for training"
        return self.misfit(facts)

    def misfit(self, facts: ClassFacts) -> str | None:
        """The rule's own objection."""
        return None


class PFedBayesSplit(SplitRecord):
    """Blocks of the pooled dataset, a few labels a client (pFedBayes, section 5.1 and its data generator)."""

    rule: Literal["pfedbayes"]
    clients: PositiveInt = Field(description="N, number of clients.")
    labels_per_client: PositiveInt = Field(description="Labels each client holds.")
    train_per_class: PositiveInt = Field(description="Training samples of each class at each client.")
    test_per_class: PositiveInt = Field(description="Test samples of each class at each client.")
    stratified: bool = Field(
        description="True: exact counts per class. False: each client's data is shuffled as a whole and cut, as the "
        "public code does, so that counts per class hold only on average."
    )

    @property
    def population(self) -> int:
        """Number of clients."""
        return self.clients

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
        holders = [0] * classes
        for client in range(self.clients):
            for label in self.client_labels(client, classes):
                holders[label] += 1
        block = self.train_per_class + self.test_per_class
        for label, (wanted, available) in enumerate(zip(holders, facts.per_class, strict=True)):
            if wanted * block > available:
                return (
                    f"class {label} must give {wanted} clients {block} samples each "
                    f"(train_per_class {self.train_per_class} + test_per_class {self.test_per_class}), "
                    f"{wanted * block} in all, but has only {available}"
                )
        return None


class LabelsSplit(SplitRecord):
    """k of n labels a client, a class shared among its holders (LR-BPFL, section 5.1; PFLlib's `pat`)."""

    rule: Literal["labels"]
    clients: PositiveInt = Field(description="K, number of clients.")
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
    def population(self) -> int:
        """Number of clients."""
        return self.clients

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


class DirichletSplit(SplitRecord):
    """Labels by Dirichlet draws (LR-BPFL, section 5.4, in both readings; plain Dirichlet splits)."""

    rule: Literal["dirichlet"]
    clients: PositiveInt = Field(description="K, number of clients.")
    alpha: PositiveFloat = Field(description="Concentration; small values give few labels a client.")
    law: Literal["client", "class"] = Field(
        description="client: each client draws its vector of class shares, and clients are of equal size. class: each "
        "class draws the shares of the clients, as PFLlib does, and sizes vary."
    )
    min_samples: PositiveInt = Field(description="Samples every client must have; draws are repeated until it has.")
    samples_per_client: PositiveInt | None = Field(
        None, description="Size of a client under the law `client`; empty: an equal share of all there is."
    )
    train_share: Share = Field(description=TRAIN_SHARE)
    pool: Pool = Field("all", description=POOL)

    @property
    def population(self) -> int:
        """Number of clients."""
        return self.clients

    @property
    def pools(self) -> tuple[Pool, ...]:
        """One part."""
        return (self.pool,)

    def misfit(self, facts: ClassFacts) -> str | None:
        """Not enough samples for what every client must have."""
        counts = facts.counts(self.pool)
        if self.law == "class" and self.samples_per_client is not None:
            return "samples_per_client belongs to the law 'client'; under the law 'class' sizes follow from the draws"
        if counts is None:
            return None
        least = max(self.min_samples, self.samples_per_client or 0)
        if self.clients * least > sum(counts):
            return (
                f"{self.clients} clients of at least {least} samples need {self.clients * least}, but there are only "
                f"{sum(counts)}; feasible: at most {sum(counts) // self.clients} a client (alpha {self.alpha})"
            )
        return None


class FedUABSplit(SplitRecord):
    """Clients of equal size whose local test set follows the label law of their training set (FedUAB, section 5.1).

    A class that is used up is dealt anew from the start, as in the public code: samples are then shared by clients.
    """

    rule: Literal["feduab"]
    clients: PositiveInt = Field(description="N_c, number of clients.")
    train_per_client: PositiveInt = Field(description="Training samples of a client, from the dataset's training part.")
    test_per_client: PositiveInt = Field(description="Test samples of a client, from the dataset's test part.")
    law: Literal["iid", "dirichlet", "only2"] = Field(
        description="iid: all classes alike; dirichlet: client i draws its class shares with concentration eta_i; "
        "only2: two classes, half and half."
    )
    concentration: Literal["uniform", "grid"] | None = Field(
        None,
        description="Of the law dirichlet: eta_i ~ U(0, 0.5] as the text has it, or 0.5 (i + 1) / N_c as the code has.",
    )

    @property
    def population(self) -> int:
        """Number of clients."""
        return self.clients

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Both parts, each for its own purpose."""
        return ("train", "test")

    def misfit(self, facts: ClassFacts) -> str | None:
        """A law that lacks its concentration, or has one it does not use; fewer than two classes."""
        if (self.law == "dirichlet") != (self.concentration is not None):
            return "concentration must be given for the law 'dirichlet', and for no other"
        if self.law == "only2" and facts.classes < 2:
            return "the law 'only2' needs two classes"
        return None


class PowerLawSplit(SplitRecord):
    """Consecutive labels a client and log-normal sizes (FedProx's generators for MNIST and FEMNIST)."""

    rule: Literal["power-law"]
    clients: PositiveInt = Field(description="Number of clients.")
    labels_per_client: PositiveInt = Field(description="Client u holds the classes u, u + 1, ... modulo their number.")
    sizes: Literal["shares", "samples"] = Field(
        description="shares: what is left of a class is shared in proportion to log-normal draws (MNIST). samples: a "
        "client's size is itself log-normal, spread evenly over its classes (FEMNIST)."
    )
    mu: float = Field(description="Mean of the logarithm.")
    sigma: NonNegativeFloat = Field(description="Standard deviation of the logarithm.")
    least: NonNegativeInt = Field(
        description="Under shares: samples of each of its classes a client gets beforehand. Under samples: what is "
        "added to its size."
    )
    train_share: Share = Field(description=TRAIN_SHARE)

    @property
    def population(self) -> int:
        """Number of clients."""
        return self.clients

    def client_labels(self, client: int, classes: int) -> list[int]:
        """Classes of a client."""
        return [(client + j) % classes for j in range(self.labels_per_client)]

    def misfit(self, facts: ClassFacts) -> str | None:
        """Too few labels, or a class too small for what every holder gets beforehand."""
        classes = facts.classes
        if self.labels_per_client > classes:
            return too_many_labels(self.labels_per_client, classes)
        if self.least * self.labels_per_client < 2:
            return f"least is {self.least}: every client needs a training and a test sample beforehand"
        holders = [0] * classes
        for client in range(self.clients):
            for label in self.client_labels(client, classes):
                holders[label] += 1
        each = self.least if self.sizes == "shares" else -(-self.least // self.labels_per_client)
        for label, (wanted, available) in enumerate(zip(holders, facts.per_class or (), strict=False)):
            if wanted * each > available:
                return (
                    f"class {label} must give {wanted} clients {each} samples each beforehand, but has only {available}"
                )
        return None


class UsersSplit(SplitRecord):
    """Natural users as clients, or grouped into clients (LEAF's sampling, FedProx's Sent140)."""

    rule: Literal["users"]
    clients: PositiveInt | None = Field(
        None, description="Users are grouped into this many clients of about equal size; empty: each user is a client."
    )
    share_of_samples: float = Field(
        1.0, gt=0, le=1, description="Users are taken in random order until they hold this share (LEAF's --sf)."
    )
    min_samples: PositiveInt = Field(1, description="Users with fewer samples are left out (LEAF's -k).")
    train_share: Share | None = Field(description=TRAIN_SHARE + " Empty: each tests on its own of the test part.")

    @property
    def population(self) -> int | None:
        """Number of clients, if users are grouped."""
        return self.clients

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Both parts, each for its own purpose, where nothing is cut."""
        return ("all",) if self.train_share is not None else ("train", "test")


class IidSplit(SplitRecord):
    """Equal random shares."""

    rule: Literal["iid"]
    clients: PositiveInt = Field(description="Number of clients.")
    train_share: Share = Field(description=TRAIN_SHARE)
    pool: Pool = Field("all", description=POOL)

    @property
    def population(self) -> int:
        """Number of clients."""
        return self.clients

    @property
    def pools(self) -> tuple[Pool, ...]:
        """One part."""
        return (self.pool,)

    def misfit(self, facts: ClassFacts) -> str | None:
        """A client needs a training and a test sample."""
        counts = facts.counts(self.pool)
        if counts is not None and sum(counts) < 2 * self.clients:
            return f"{self.clients} clients need at least {2 * self.clients} samples, but there are only {sum(counts)}"
        return None


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
        for name, part in (("trained", self.trained), ("new", self.new)):
            if objection := part.objection(facts):
                return f"{name}: {objection}"
        return None


Split: TypeAlias = (
    PFedBayesSplit | LabelsSplit | DirichletSplit | FedUABSplit | PowerLawSplit | UsersSplit | IidSplit | JoinedSplit
)
AnySplit: TypeAlias = Annotated[Split, Field(discriminator="rule")]

RECORDS: dict[str, type[Split]] = {
    "pfedbayes": PFedBayesSplit,
    "labels": LabelsSplit,
    "dirichlet": DirichletSplit,
    "feduab": FedUABSplit,
    "power-law": PowerLawSplit,
    "users": UsersSplit,
    "iid": IidSplit,
    "joined": JoinedSplit,
}


def too_many_labels(wanted: int, classes: int) -> str:
    """What is said of more labels than there are."""
    return f"labels_per_client is {wanted}, but the dataset has only {classes} classes"


def split_of(found: Mapping[str, Any]) -> Split:
    """The record of a split's specification."""
    return RECORDS[found["rule"]].model_validate(found)


def split_name(split: Split) -> str:
    """The folder name of a split, readable and unique: `pfedbayes-clients10-labels_per_client5-...`."""
    return _name(split.model_dump())


def _name(fields: Mapping[str, Any]) -> str:
    parts: list[str] = [fields["rule"]]
    for key, value in fields.items():
        if key == "rule" or value is None:
            continue
        if isinstance(value, bool):
            parts.append(key if value else f"not_{key}")
        elif isinstance(value, Mapping):
            parts.append(f"{key}_{_name(value)}")
        elif isinstance(value, tuple):
            parts.append(key + "_".join(map(str, value)))
        else:
            parts.append(f"{key}{value}")
    return "-".join(parts)
