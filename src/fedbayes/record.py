"""The base of everything a user may write: frozen, and exact about keys and types."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen record that refuses unknown keys and silent conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
