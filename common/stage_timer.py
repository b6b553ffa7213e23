"""Which part of a loop its time goes to."""

import time
from collections.abc import Callable, Mapping

# Parts of self-play, in the order of a step: walking to the leaves; making the network's input (or sending it); the
# network; growing the trees; finished games; new weights; waiting for rows to be learned from, weights or answers.
PARTS = ("select", "encode", "network", "expand", "record", "load", "wait")


class Laps:
    """Charges the time since the previous call to a part, so that the parts add up to all the time that passed.

    One thread writes; a lap costs about 0.1 microseconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._clock, self._last = clock, clock()

    def lap(self, part: str) -> None:
        """The time since the last lap went to this part, one of PARTS."""
        now = self._clock()
        self.seconds[part] += now - self._last
        self._last = now

    def counters(self) -> dict[str, int]:
        """Whole microseconds of every part: totals that only grow."""
        return {f"{part}_us": round(seconds * 1e6) for part, seconds in self.seconds.items()}


def shares(before: Mapping[str, int | float], after: Mapping[str, int | float]) -> dict[str, float]:
    """Of the time between two sets of counters, what share each part took; empty where no time passed."""
    spent = {part: after.get(f"{part}_us", 0) - before.get(f"{part}_us", 0) for part in PARTS}
    total = sum(spent.values())
    return {part: time / total for part, time in spent.items()} if total > 0 else {}
