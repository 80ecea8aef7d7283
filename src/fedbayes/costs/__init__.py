"""What a plan will cost before anything starts: core-hours, memory and disk, by rates measured on finished runs."""

from fedbayes.costs.rates import RATES, START_UP_SECONDS, Cost, Measured, Rates, write_rows
from fedbayes.costs.summary import aligned, summary
from fedbayes.costs.work import Size, passes, size_of, test_passes, training_passes, visit_passes

__all__ = [
    "RATES",
    "START_UP_SECONDS",
    "Cost",
    "Measured",
    "Rates",
    "Size",
    "aligned",
    "passes",
    "size_of",
    "summary",
    "test_passes",
    "training_passes",
    "visit_passes",
    "write_rows",
]
