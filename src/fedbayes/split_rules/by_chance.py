"""Rules that draw each client's labels, or leave them to chance: Dirichlet, FedUAB, equal random shares."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from fedbayes.split_rules.base import POOL, TRAIN_SHARE, ClientsSplit, Share
from fedbayes.split_rules.facts import ClassFacts, Pool


class DirichletSplit(ClientsSplit):
    """Labels by Dirichlet draws (LR-BPFL, section 5.4, in both readings; plain Dirichlet splits)."""

    rule: Literal["dirichlet"]
    alpha: PositiveFloat = Field(description="Concentration; small values give few labels a client.")
    law: Literal["client", "class"] = Field(
        description="client: each client draws its vector of class shares, and clients are of equal size; when a class "
        "is used up the others of the vector stand in, so that late clients follow their law the less, the more of the "
        "dataset is dealt. class: each class draws the shares of the clients, as PFLlib does, and sizes vary."
    )
    min_samples: PositiveInt = Field(description="Samples every client must have; draws are repeated until it has.")
    samples_per_client: PositiveInt | None = Field(
        None, description="Size of a client under the law `client`; empty: an equal share of all there is."
    )
    train_share: Share = Field(description=TRAIN_SHARE)
    pool: Pool = Field("all", description=POOL)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """One part."""
        return (self.pool,)

    def misfit(self, facts: ClassFacts) -> str | None:
        """Not enough samples for what every client must have."""
        counts = facts.counts(self.pool)
        if self.law == "class" and self.samples_per_client is not None:
            return "samples_per_client belongs to the law 'client'; under the law 'class' sizes follow from the draws"
        if self.samples_per_client is not None and self.samples_per_client < self.min_samples:
            return f"samples_per_client is {self.samples_per_client}, but min_samples {self.min_samples}"
        if counts is None:
            return None
        least = max(self.min_samples, self.samples_per_client or 0)
        if self.clients * least > sum(counts):
            return (
                f"{self.clients} clients of at least {least} samples need {self.clients * least}, but there are only "
                f"{sum(counts)}; feasible: at most {sum(counts) // self.clients} a client (alpha {self.alpha})"
            )
        return None


class FedUABSplit(ClientsSplit):
    """Clients of equal size whose local test set follows the label law of their training set (FedUAB, section 5.1).

    A class that is used up is dealt anew from the start, as in the public code: samples are then shared by clients.
    """

    rule: Literal["feduab"]
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


class IidSplit(ClientsSplit):
    """Equal random shares."""

    rule: Literal["iid"]
    train_share: Share = Field(description=TRAIN_SHARE)
    pool: Pool = Field("all", description=POOL)

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
