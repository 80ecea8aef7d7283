"""The weight of a KL term by round: it rises from the start of a cycle, stays at its height, and begins anew.

Cyclical annealing is that of Fu, Li, Liu, Gao, Celikyilmaz, Carin, "Cyclical Annealing Schedule: A Simple Approach to
Mitigating KL Vanishing", NAACL 2019.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Shape = Literal["linear", "sigmoid"]

# A sigmoid ramp goes from sigmoid(-6) to sigmoid(6).
REACH = 6.0


def cyclical(round_: Tensor, cycle: int | None, ramp: int, shape: Shape, dtype: torch.dtype) -> Tensor:
    r"""The share of its height that the weight has after some rounds.

    With $u = (t \bmod cycle) / ramp$ it is $u$ or $\mathrm{sigmoid}(12 u - 6)$ while $u \le 1$, then 1.

    Args:
        round_: t, rounds completed.
        cycle: rounds of a cycle; None for one that never ends.
        ramp: rounds that it rises for.
        shape: of the rise.
        dtype: of what comes out.
    """
    place = round_ if cycle is None else round_ % cycle
    risen = place.to(dtype) / ramp
    rise = risen if shape == "linear" else torch.sigmoid(REACH * (2 * risen - 1))
    return torch.where(risen <= 1, rise, torch.ones_like(rise))
