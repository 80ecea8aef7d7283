"""The first layer of networks over texts."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def look_up(tokens: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    """The rows of a table: a map that is linear in the table and has no bias."""
    return F.embedding(tokens, table)
