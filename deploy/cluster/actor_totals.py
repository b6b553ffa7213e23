"""The metrics in the actors' heartbeats, summed over all incarnations of all actors."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgpack

from shusaku.replay.stream.control import ActorMetrics

TEXTS = ("runtime", "dropped")  # the metrics that are no numbers
COUNTED = ("games", "inserted")  # counters of the replay that go on when it loses its data
SILENT_SECONDS = 60.0  # without a heartbeat, which comes every second: the actor has ended


class _Newest(NamedTuple):
    incarnation: int
    metrics: Mapping[str, Any]


class ActorTotals:
    """Counters only grow: the last metrics of an incarnation are kept when the next one begins."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *,
        counted: Mapping[str, int] = {}, lost: Mapping[str, int] = {},
    ) -> None:
        """`counted` and `lost`: what an earlier term of the driver had under these names."""
        self._clock = clock
        self._heard_at: dict[int, float] = {}  # when the replay last had a heartbeat of an actor
        self.total: dict[str, int] = {}
        self.counters: Mapping[str, int] = {}  # of the replay
        self.counted = {name: counted.get(name, 0) for name in COUNTED}  # by the replay when it was heard last
        self.lost = {name: lost.get(name, 0) for name in COUNTED}  # counted by the replay before it lost its data
        self.accepted = self.lost["games"] + self.counted["games"]  # by the replay, over all terms of the driver
        self.rows = self.lost["inserted"] + self.counted["inserted"]  # of these games
        self.by_actor: dict[int, Mapping[str, Any]] = {}  # newest metrics of each actor that runs
        self._ended: dict[str, int] = {}  # of incarnations that have ended
        self._newest: dict[int, _Newest] = {}

    def update(self, actors: Mapping[int, ActorMetrics], counters: Mapping[str, int]) -> None:
        """Takes in the newest heartbeat of each actor and the replay's counters."""
        for actor, sent in actors.items():
            metrics, before = _unpack(sent.metrics), self._newest.get(actor)
            self._heard_at[actor] = self._clock() - sent.age_s
            if not metrics:
                continue
            if before is not None and before.incarnation != sent.incarnation:
                self._ended = _sum([self._ended, before.metrics])
            self._newest[actor] = _Newest(sent.incarnation, metrics)
        self.by_actor = {actor: self._newest[actor].metrics for actor, sent in actors.items()
                         if actor in self._newest and sent.age_s < SILENT_SECONDS}
        self.total = _sum([self._ended, *(newest.metrics for newest in self._newest.values())])
        self.counters = counters
        for name in COUNTED:
            now = counters.get(name, 0)
            self.lost[name] += max(0, self.counted[name] - now)
            self.counted[name] = now
        self.accepted = self.lost["games"] + self.counted["games"]
        self.rows = self.lost["inserted"] + self.counted["inserted"]

    def unheard_seconds(self, actor: int) -> float:
        """Since the replay last had a heartbeat of this actor; 0 if it never had one."""
        return self._clock() - self._heard_at[actor] if actor in self._heard_at else 0.0


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
