"""What a job of a run asks a cluster for: memory and minutes, by the run's estimated cost, more with every attempt.

Estimates are good for the order of magnitude, so a job asks for twice as much. Asking for too little costs a restart
from the last checkpoint; asking for too much costs time in the queue, so there is a longest request as well.
"""

from __future__ import annotations

from fedbayes.costs import Cost

SAFETY = 2.0
LEAST_MB, LEAST_MINUTES = 3000, 60
MOST_MINUTES = 24 * 60


def memory_mb(cost: Cost, attempt: int) -> int:
    """Memory for one attempt."""
    return attempt * max(LEAST_MB, round(SAFETY * cost.memory_mb))


def minutes(cost: Cost, attempt: int) -> int:
    """Wall time for one attempt; a run that needs longer goes on from its checkpoint in the next."""
    return min(attempt * max(LEAST_MINUTES, round(SAFETY * cost.seconds / 60)), MOST_MINUTES)
