r"""Variational dropout with a free variance: $q(\theta) = N(w, e^a)$, whose dropout rate is $\alpha = e^a / w^2$.

The prior is $N(0, s^2)$ with the $s^2$ that suits each weight best (empirical Bayes). Minimising
$KL(q \| N(0, s^2)) = \frac12 [\log(s^2/e^a) + (e^a + w^2)/s^2 - 1]$ over $s^2$ gives $s^2 = w^2 + e^a$.
"""

from __future__ import annotations

import torch
from torch import Tensor


def divergence(w: Tensor, log_variance: Tensor) -> Tensor:
    r"""$\min_{s^2} KL(N(w, e^a) \| N(0, s^2)) = \frac12 \log(1 + w^2/e^a)$, weight by weight."""
    return 0.5 * torch.log1p(w**2 * torch.exp(-log_variance))
