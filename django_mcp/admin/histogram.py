"""Durations in classes, each a tenth longer than the one before: counted by every database, and small."""

import math
from collections.abc import Mapping
from typing import Any

from django.db.models import F, FloatField, Value
from django.db.models.functions import Floor, Greatest, Ln

FACTOR = 1.1
"""From one class to the next. A quantile is wrong by less than that; in practice by some hundredths."""
SHORTEST = 0.01
"""In milliseconds. Nothing has no logarithm."""


def class_of(column: str) -> Any:
    """The number of a duration's class, as an expression."""
    longer = Greatest(F(column), Value(SHORTEST), output_field=FloatField())
    return Floor(Ln(longer) / Value(math.log(FACTOR)), output_field=FloatField())


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """What that share of the durations does not exceed; None where there are no durations.

    Args:
        counts: how many there are of each class.
        share: such as 0.95.
    """
    wanted, before = share * sum(counts.values()), 0
    for number, count in sorted(counts.items()):
        if before + count >= wanted:
            return float(FACTOR ** (number + (wanted - before) / count))
        before += count
    return None
