"""An actor's side of the replay: finished games into the stream, in order, each once, and `Control` back."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

from shusaku.common.codec import encode_record
from shusaku.common.messages import Control, GameRecord
from shusaku.replay.stream.client import Link, connect, translate_redis_errors
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.scripts import APPEND, Argument, Caller

MAX_GAMES = 64  # of one call: the server does nothing else meanwhile
MAX_METRICS_BYTES = 4096  # bytes


class EncodedGame(NamedTuple):
    """A finished game, ready to be sent."""

    sequence: int  # of its actor's life, ascending
    rows: int  # with weight > 0
    data: bytes

    @classmethod
    def of(cls, record: GameRecord) -> "EncodedGame":
        """CodecError when the record cannot be written."""
        return cls(record.game_id.sequence, record.num_rows, encode_record(record))


class AppendStatus(IntEnum):
    """What became of a call."""

    DONE = 0  # the games are in the window, or were before
    LOST = 1  # the server does not know the run: nothing was kept; send again when the driver has begun anew
    OTHER_EPOCH = 2  # another driver has taken over: nothing will ever be kept
    FENCED = 3  # this actor has a successor: nothing will ever be kept


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server says to an append or a heartbeat."""

    status: AppendStatus
    control: Control  # with `stop` where the actor has no business any more
    appended: int = 0  # games
    duplicates: int = 0  # games that had been appended before

    @property
    def is_refused(self) -> bool:
        """For ever."""
        return self.status in (AppendStatus.OTHER_EPOCH, AppendStatus.FENCED)


class Appender:
    """Sends the games of one life of one actor.  For one thread at a time."""

    def __init__(
        self, url: str, run_id: str, *, actor: int, epoch: int, incarnation: int, deadline: float = 5.0
    ) -> None:
        """Nothing is sent yet.  UsageError when URL or run id are malformed."""
        self.actor, self.epoch, self.incarnation = actor, epoch, incarnation
        self._url = url
        self._link = Link(connect(url, deadline))
        self._keys = RunKeys.of(run_id)

    def append(self, games: Sequence[EncodedGame], metrics: bytes = b"") -> Reply:
        """At most MAX_GAMES, in ascending order of their numbers, or none: a heartbeat.  All of them or none are kept.

        ReplayUnavailable when it is not known whether they were: send the same games again, in the same order, and
        those that were kept are recognised by their numbers.  `metrics` (4 KB at most) is what the driver shows;
        empty: what was sent before stays.
        """
        with translate_redis_errors(self._url):
            return append(self._link, self._keys, (self.epoch, self.actor, self.incarnation), games, metrics)

    def close(self) -> None:
        self._link.close()


def append(
    client: Caller, keys: RunKeys, identity: tuple[int, int, int], games: Sequence[EncodedGame], metrics: bytes
) -> Reply:
    """`Appender.append` for anybody's (epoch, actor, incarnation); errors are those of redis-py."""
    assert len(games) <= MAX_GAMES, len(games)
    assert len(metrics) <= MAX_METRICS_BYTES, len(metrics)
    assert all(one.sequence < other.sequence for one, other in pairwise(games)), [game.sequence for game in games]
    arguments: list[Argument] = [*identity, metrics]
    for game in games:
        arguments += game
    return read_reply(APPEND(client, keys[:6], arguments))


def read_reply(answer: Any) -> Reply:
    """Of the append script."""
    status, throttle, stop, version, epoch, actors, appended, duplicates = map(int, answer)
    is_refused = status in (AppendStatus.OTHER_EPOCH, AppendStatus.FENCED)
    control = Control(bool(throttle), bool(stop) or is_refused, version, epoch, actors)
    return Reply(AppendStatus(status), control, appended, duplicates)
