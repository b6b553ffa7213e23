"""What the actors say of themselves in their heartbeats, summed over all their lives."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgpack

from replay.redis_control import ActorFigures


class _Heard(NamedTuple):
    incarnation: int
    age_s: float  # since the replay heard of it
    figures: Mapping[str, Any]


class ActorTotals:
    """Counters only grow, whoever dies: the last figures of a life are kept when the next one begins."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total: dict[str, int] = {}
        self.accepted = 0  # games in the life of the run, as the replay counts them
        self.rows = 0
        self.counters: Mapping[str, int] = {}  # of the replay
        self.living: dict[int, Mapping[str, Any]] = {}  # actor -> newest figures
        self._ended: dict[str, int] = {}
        self._newest: dict[int, _Heard] = {}
        self._clock = clock
        self._updated = clock()
        self._answering_since: float | None = None  # an actor's silence counts only from here on

    def update(self, actors: Mapping[int, ActorFigures], counters: Mapping[str, int]) -> None:
        """The figures of now."""
        now = self._clock()
        heard = {actor: _Heard(f.incarnation, f.age_s, _unpack(f.figures)) for actor, f in actors.items()}
        if self._answering_since is None:
            self._answering_since = now
        for actor, figures in heard.items():
            before = self._newest.get(actor)
            if before is not None and before.incarnation != figures.incarnation:
                self._ended = _sum([self._ended, before.figures])
        self._newest |= heard
        self._updated = now
        self.living = {actor: figures.figures for actor, figures in heard.items()}
        self.total = _sum([self._ended, *(h.figures for h in self._newest.values())])
        self.counters = counters
        self.accepted, self.rows = max(self.accepted, counters.get("games", 0)), counters.get("inserted", 0)

    def miss(self) -> None:
        """The replay did not answer: nobody could be heard."""
        self._answering_since = None

    def heard(self, actor: int, incarnation: int) -> float | None:
        """Seconds since this life of the actor was heard from; None before, and while the replay does not answer."""
        figures = self._newest.get(actor)
        if figures is None or figures.incarnation != incarnation or self._answering_since is None:
            return None
        now = self._clock()
        return min(figures.age_s + now - self._updated, now - self._answering_since)


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
    return content if isinstance(content, dict) else {}
