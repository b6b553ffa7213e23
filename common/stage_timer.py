"""How much of a loop's time each of its stages takes."""

import time
from collections.abc import Callable, Mapping

# The stages of self-play, in the order of a step: select leaves; make the network's input (or send it); run the
# network; grow the trees; record finished games; load weights; wait for the limiter, for weights or for answers.
STAGES = ("select", "encode", "network", "expand", "record", "load", "wait")


class StageTimer:
    """Charges the time since the previous call to a stage, so that the stages add up to all the time that passed.

    One thread writes; a call costs about 0.1 microseconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._clock, self._last = clock, clock()

    def charge(self, stage: str) -> None:
        """Adds the time since the previous call to `stage`, one of STAGES."""
        now = self._clock()
        self.seconds[stage] += now - self._last
        self._last = now

    def counters(self) -> dict[str, int]:
        """Whole microseconds of every stage: totals that only grow."""
        return {f"{stage}_us": round(seconds * 1e6) for stage, seconds in self.seconds.items()}


def shares(before: Mapping[str, int | float], after: Mapping[str, int | float]) -> dict[str, float]:
    """Each stage's share of the time between two sets of counters; empty if no time passed."""
    spent = {stage: after.get(f"{stage}_us", 0) - before.get(f"{stage}_us", 0) for stage in STAGES}
    total = sum(spent.values())
    return {stage: time / total for stage, time in spent.items()} if total > 0 else {}
