"""The thresholds of resignation of several batches of games as one number; how each is found: search/resignation.h."""

import statistics
from collections.abc import Iterable

NEVER_RESIGN = -1.0  # the threshold at which no player resigns


def typical_resign_value(values: Iterable[float]) -> float:
    """The median of the thresholds that are in use; NEVER_RESIGN if none is."""
    return statistics.median([value for value in values if value > NEVER_RESIGN] or [NEVER_RESIGN])
