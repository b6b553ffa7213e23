"""What a worker does at this moment, so that its driver tells work from waiting, and both from a hang.

A worker names each piece of work when it begins, such as a gradient step, and each wait for something that another part
of the run has to do.  A heartbeat carries this to the driver, from a thread that does nothing else.  So three things
differ that look alike from outside: a process that is gone (no heartbeat), work that takes longer than ever before (a
hang, after a deadline that follows the durations measured), and waiting, which may last as long as it likes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A worker at the moment of its answer."""

    activity: str  # such as "a gradient step"
    seconds: float  # since it began
    is_wait: bool = False  # something else decides how long it lasts
    waits_for: str = ""  # the role of the worker that it waits for, if a run that is well has no such wait
    is_ready: bool = True  # everything is built, and its work has begun
    slowest: Mapping[str, float] = field(default_factory=dict)  # activity -> seconds of the longest that has ended
    troubles: Sequence[str] = ()  # what is wrong now, in a line each
    host: str = ""  # that it runs on
    clock: float = 0.0  # of that host, seconds since 1970; 0: not read


class _Now(NamedTuple):
    activity: str
    since: float
    is_wait: bool
    waits_for: str


class ActivityClock:
    """One thread names what it does; any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._now = _Now("starting", clock(), is_wait=False, waits_for="")
        self._slowest: dict[str, float] = {}
        self._is_ready = False

    def begin(self, activity: str) -> None:
        """A piece of work begins, and the one before has ended, also if it had the same name."""
        now = self._clock()
        before = self._now
        self._now = _Now(activity, now, is_wait=False, waits_for="")
        if not before.is_wait and now - before.since > self._slowest.get(before.activity, 0.0):
            self._slowest[before.activity] = now - before.since

    def wait(self, activity: str, waits_for: str = "") -> None:
        """A wait begins, or goes on if it has the same name.

        `waits_for`: the role waited for, if that should not have to be waited for.
        """
        if self._now.activity != activity or not self._now.is_wait:
            self.begin(activity)
            self._now = self._now._replace(is_wait=True, waits_for=waits_for)

    def set_ready(self) -> None:
        """Everything is built."""
        self._is_ready = True

    def heartbeat(self, troubles: Sequence[str] = ()) -> Heartbeat:
        """The state of this moment."""
        now = self._now
        return Heartbeat(now.activity, self._clock() - now.since, now.is_wait, now.waits_for, self._is_ready,
                         self._slowest.copy(), tuple(troubles))
