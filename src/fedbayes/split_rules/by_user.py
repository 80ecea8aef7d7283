"""The rule that takes clients as they are: natural users, or groups of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from fedbayes.split_rules.base import TRAIN_SHARE, Share, SplitRecord
from fedbayes.split_rules.facts import Pool


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
