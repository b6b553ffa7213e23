"""The metrics in the actors' heartbeats, summed over all incarnations of all actors."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgpack

from shusaku.replay.stream.control import ActorMetrics

TEXTS = ("runtime", "dropped", "save_trouble")  # the metrics that are no numbers
GAP_SECONDS = 5.0  # between two updates; after a longer gap the driver itself was suspended


class _Heartbeat(NamedTuple):
    incarnation: int
    at: float  # by our clock
    metrics: Mapping[str, Any]


class ActorTotals:
    """Counters only grow: the last metrics of an incarnation are kept when the next one begins.

    A heartbeat counts when its metrics are new; one with the metrics of before only proves that a thread of the
    actor lives.  Its age is measured by our own clock, and only while the replay answers.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total: dict[str, int] = {}
        self.accepted = 0  # games that the replay took, over all terms of the driver
        self.rows = 0  # of these games
        self.counters: Mapping[str, int] = {}  # of the replay
        self.by_actor: dict[int, Mapping[str, Any]] = {}  # newest metrics of each actor that runs
        self._lost = {"games": 0, "inserted": 0}  # counted by the replay before it lost its data
        self._ended: dict[str, int] = {}  # of incarnations that have ended
        self._newest: dict[int, _Heartbeat] = {}
        self._clock = clock
        self._updated_at = clock()
        self._reachable_since: float | None = None

    def update(self, actors: Mapping[int, ActorMetrics], counters: Mapping[str, int]) -> None:
        """Takes in the newest heartbeat of each actor and the replay's counters."""
        now = self._clock()
        if self._reachable_since is None or now - self._updated_at > GAP_SECONDS:
            self._reachable_since = now
        self._updated_at = now
        for actor, sent in actors.items():
            metrics = _unpack(sent.metrics)
            before = self._newest.get(actor)
            if before is not None and before.incarnation != sent.incarnation:
                self._ended = _sum([self._ended, before.metrics])
                before = None
            if metrics and (before is None or metrics != before.metrics):
                self._newest[actor] = _Heartbeat(sent.incarnation, now, metrics)
        self.by_actor = {actor: self._newest[actor].metrics for actor in actors if actor in self._newest}
        self.total = _sum([self._ended, *(heartbeat.metrics for heartbeat in self._newest.values())])
        for name in self._lost:
            self._lost[name] += max(0, self.counters.get(name, 0) - counters.get(name, 0))
        self.counters = counters
        self.accepted = self._lost["games"] + counters.get("games", 0)
        self.rows = self._lost["inserted"] + counters.get("inserted", 0)

    def mark_unreachable(self) -> None:
        """The replay did not answer, so no heartbeat can arrive."""
        self._reachable_since = None

    def last_heartbeat(self, actor: int, incarnation: int) -> float | None:
        """Seconds since the newest heartbeat of this incarnation; None before the first and while none can arrive."""
        newest = self._newest.get(actor)
        if newest is None or newest.incarnation != incarnation or self._reachable_since is None:
            return None
        return self._clock() - max(newest.at, self._reachable_since)


def _sum(many: list[Mapping[str, Any]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for metrics in many:
        total.update({name: value for name, value in metrics.items() if isinstance(value, int)})
    return total


def _unpack(data: bytes) -> Mapping[str, Any]:
    """Empty if it is not ours: every client with the password can write there."""
    try:
        content = msgpack.unpackb(data, max_map_len=64, max_array_len=0, max_bin_len=0, max_str_len=256)
    except (ValueError, TypeError, msgpack.UnpackException):
        return {}
    if not isinstance(content, dict):
        return {}
    return {str(name): value for name, value in content.items()
            if isinstance(value, str if name in TEXTS else int | float) and not isinstance(value, bool)}
