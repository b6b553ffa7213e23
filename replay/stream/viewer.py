"""A reader of the newest games of a run in Redis: it writes nothing and reports nothing."""

from collections.abc import Iterator
from typing import Any

from shusaku.replay.stream.client import connect, translate_redis_errors
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.tail import parse_entries

FIRST_GAMES = 128
MOST_GAMES = 256  # of one read; games between two reads beyond it are passed over
_ANY = 2**62


class StreamViewer:
    """The games of a run as they end; `read` raises ReplayUnavailable.  Not thread-safe."""

    def __init__(self, url: str, run_id: str, deadline: float = 2.0) -> None:
        self._url, self._redis = url, connect(url, deadline)
        self._key = RunKeys.of(run_id).games
        self._after = ""  # id of the newest game that was read

    def read(self) -> Iterator[bytes]:
        """The encoded records since the last call, at most MOST_GAMES, the newest ones; oldest first."""
        begin, count = (f"({self._after}", MOST_GAMES) if self._after else ("-", FIRST_GAMES)
        with translate_redis_errors(self._url):
            newest: Any = self._redis.xrevrange(self._key, "+", begin, count)
        raw = [(name, [part for pair in fields.items() for part in pair]) for name, fields in reversed(newest)]
        for entry in parse_entries(raw, _ANY, _ANY):
            self._after = entry.id
            if entry.is_ours:
                yield entry.data

    def close(self) -> None:
        """Closes the connection."""
        self._redis.close()
