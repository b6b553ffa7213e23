"""What the actors say of themselves in their heartbeats, summed over all their lives."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgpack

from shusaku.replay.stream.control import ActorMetrics

GAP_SECONDS = 5.0  # between two updates: longer, and somebody has not looked


class _Heard(NamedTuple):
    incarnation: int
    at: float  # by our clock
    figures: Mapping[str, Any]


class ActorTotals:
    """Counters only grow, whoever dies: the last figures of a life are kept when the next one begins.

    An actor is heard from when its loop has stated new figures; a heartbeat alone only says that a thread of it lives.
    Silence is counted by our own clock, and only while the replay could have told us.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total: dict[str, int] = {}
        self.accepted = 0  # games in the life of the run
        self.rows = 0  # of them
        self.counters: Mapping[str, int] = {}  # of the replay
        self.living: dict[int, Mapping[str, Any]] = {}  # actor -> newest figures
        self._lost = {"games": 0, "inserted": 0}  # what the replay had counted before it forgot
        self._ended: dict[str, int] = {}
        self._newest: dict[int, _Heard] = {}
        self._clock = clock
        self._updated = clock()
        self._answering_since: float | None = None

    def update(self, actors: Mapping[int, ActorMetrics], counters: Mapping[str, int]) -> None:
        """The figures of now."""
        now = self._clock()
        if self._answering_since is None or now - self._updated > GAP_SECONDS:
            self._answering_since = now
        self._updated = now
        for actor, said in actors.items():
            figures = _unpack(said.metrics)
            before = self._newest.get(actor)
            if before is not None and before.incarnation != said.incarnation:
                self._ended = _sum([self._ended, before.figures])
                before = None
            if figures and (before is None or figures != before.figures):
                self._newest[actor] = _Heard(said.incarnation, now, figures)
        self.living = {actor: self._newest[actor].figures for actor in actors if actor in self._newest}
        self.total = _sum([self._ended, *(heard.figures for heard in self._newest.values())])
        for name in self._lost:
            self._lost[name] += max(0, self.counters.get(name, 0) - counters.get(name, 0))
        self.counters = counters
        self.accepted = self._lost["games"] + counters.get("games", 0)
        self.rows = self._lost["inserted"] + counters.get("inserted", 0)

    def miss(self) -> None:
        """The replay did not answer: nobody could be heard."""
        self._answering_since = None

    def heard(self, actor: int, incarnation: int) -> float | None:
        """Seconds since this life of the actor was heard from; None before, and while the replay does not answer."""
        newest = self._newest.get(actor)
        if newest is None or newest.incarnation != incarnation or self._answering_since is None:
            return None
        return self._clock() - max(newest.at, self._answering_since)


def _sum(many: list[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for figures in many:
        for name, value in figures.items():
            if isinstance(value, int):
                total[name] = total.get(name, 0) + value
    return total


def _unpack(figures: bytes) -> Mapping[str, Any]:
    """Anybody with the password may have written them."""
    try:
        content = msgpack.unpackb(figures, max_map_len=64, max_array_len=0, max_bin_len=0, max_str_len=256)
    except (ValueError, TypeError, msgpack.UnpackException):
        return {}
    if not isinstance(content, dict):
        return {}
    texts = {"runtime"}
    return {
        str(name): value for name, value in content.items()
        if isinstance(value, str if name in texts else int | float) and not isinstance(value, bool)
    }
