"""Many settings in few runs: each run changes half of them, and each setting is judged by all runs.

Plackett and Burman (1946), "The design of optimum multifactorial experiments": in N runs up to N - 1 settings are on in
half of the runs each, and any two of them are on together in a quarter.  So the mean with a setting less the mean
without it says what it is worth on the average of the others.  What two settings do to each other is spread over the
rest: what wins is to be confirmed beside a run that changes nothing.
"""

import statistics
from collections.abc import Sequence

# The first rows; the others are the same, shifted, and one in which everything is off.
FIRST_ROWS = {
    8: "+++-+--",
    12: "++-+++---+-",
    20: "++--++++-+-+----++-",
    24: "+++++-+-++--++--+-+----",
}


def screening_runs(settings: int) -> list[tuple[bool, ...]]:
    """For each run, which of so many settings are on.  ValueError above 23."""
    size = next((size for size in FIRST_ROWS if size > settings), None)
    if size is None or settings < 1:
        raise ValueError(f"{settings} settings; a screening takes 1 to {max(FIRST_ROWS) - 1}")
    first = [sign == "+" for sign in FIRST_ROWS[size]]
    rows = [tuple(first[(place - shift) % (size - 1)] for place in range(settings)) for shift in range(size - 1)]
    return [*rows, (False,) * settings]


def effects(runs: Sequence[Sequence[bool]], values: Sequence[float]) -> list[float]:
    """Of each setting: the mean of the values with it, less that without it."""
    return [statistics.mean(value for run, value in zip(runs, values, strict=True) if run[setting])
            - statistics.mean(value for run, value in zip(runs, values, strict=True) if not run[setting])
            for setting in range(len(runs[0]))]


def standard_error(found: Sequence[float]) -> float:
    """Of an effect, from the effects themselves, most of which are noise (Lenth 1989, "Quick and easy analysis of
    unreplicated factorials")."""
    sizes = [abs(effect) for effect in found]
    first = 1.5 * statistics.median(sizes)
    return 1.5 * statistics.median([size for size in sizes if size < 2.5 * first] or [0.0])
