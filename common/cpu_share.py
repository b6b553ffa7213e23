"""A thread that takes no more than its share of the processor's time."""

import time
from collections.abc import Callable


class CpuShare:
    """Rests the thread that calls it, by what was used since it was made: by that thread, unless `used` counts more."""

    def __init__(
        self, share: float, wait: Callable[[float], object], *, used: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`share`: of one core, above 0; `wait` takes seconds, and may return early; `used`, `clock` give seconds."""
        self._share, self._wait, self._used, self._clock = share, wait, used, clock
        self._used_before, self._begin = used(), clock()

    def rest(self) -> None:
        """Waits until what was used so far is the share of the time so far."""
        due = (self._used() - self._used_before) / self._share - (self._clock() - self._begin)
        if due > 0:
            self._wait(due)
