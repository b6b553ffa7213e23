"""The actor's side of the stream: it appends finished games in order, each once, and receives `Control`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

from shusaku.common.codec import encode_record
from shusaku.common.messages import Control, GameRecord
from shusaku.replay.stream.client import Link, connect, translate_redis_errors
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.open_games import SaveCall, SaveStatus, save_open_games
from shusaku.replay.stream.scripts import APPEND, Argument, Caller

MAX_GAMES = 64  # in one call: the server serves no other client meanwhile
MAX_METRICS_BYTES = 4096  # bytes


class EncodedGame(NamedTuple):
    """A finished game, ready to be sent."""

    sequence: int  # in the incarnation of its actor, ascending
    rows: int  # with weight > 0
    data: bytes
    open_id: str = ""  # see `common.messages.OpenGame`; empty: it was never saved while it was open

    @classmethod
    def of(cls, record: GameRecord) -> "EncodedGame":
        """Encodes the record; CodecError if that is impossible."""
        return cls(record.game_id.sequence, record.num_rows, encode_record(record), record.open_id)


class AppendStatus(IntEnum):
    """What an append or a heartbeat has done; the numbers are those of `append.lua`."""

    DONE = 0  # the games are in the window, or were appended before
    LOST = 1  # the server has no data of the run, nothing was kept: send again after the driver has begun anew
    OTHER_EPOCH = 2  # another driver term has begun: no game will be kept from now on
    FENCED = 3  # this actor has a successor: no game will be kept from now on


@dataclass(frozen=True, slots=True)
class Reply:
    """The server's answer to an append or a heartbeat."""

    status: AppendStatus
    control: Control  # with `stop` if the games are refused
    appended: int = 0  # games
    duplicates: int = 0  # games that had been appended before

    @property
    def is_refused(self) -> bool:
        """Whether the server refuses the games of this actor from now on."""
        return self.status in (AppendStatus.OTHER_EPOCH, AppendStatus.FENCED)


class Appender:
    """Sends the games of one incarnation of one actor.  For one thread at a time."""

    def __init__(
        self, url: str, run_id: str, *, actor: int, epoch: int, incarnation: int, deadline: float = 5.0
    ) -> None:
        """Sends nothing yet.  UsageError if the URL or the run id is malformed."""
        self.actor, self.epoch, self.incarnation = actor, epoch, incarnation
        self._url = url
        self._link = Link(connect(url, deadline))
        self._keys = RunKeys.of(run_id)

    def append(self, games: Sequence[EncodedGame], metrics: bytes = b"") -> Reply:
        """Appends at most MAX_GAMES, in ascending order of their sequence numbers; all or none are kept.

        Without games it is a heartbeat.  ReplayUnavailable if it is unknown whether the games were kept: send the same
        games again, in the same order, and the server recognises by their numbers those that it has.  `metrics` (4 KB
        at most) are shown by the driver; if empty, those that were sent before stay.
        """
        with translate_redis_errors(self._url):
            return append(self._link, self._keys, (self.epoch, self.actor, self.incarnation), games, metrics)

    def save_open_games(self, call: SaveCall) -> SaveStatus:
        """One call of an `Upload`; ReplayUnavailable if it is unknown what it has done."""
        with translate_redis_errors(self._url):
            return save_open_games(self._link, self._keys, (self.epoch, self.actor, self.incarnation), call)

    def close(self) -> None:
        """Closes the connection."""
        self._link.close()


def append(
    client: Caller, keys: RunKeys, identity: tuple[int, int, int], games: Sequence[EncodedGame], metrics: bytes
) -> Reply:
    """Does the same as `Appender.append` for any (epoch, actor, incarnation); errors are those of redis-py."""
    assert len(games) <= MAX_GAMES, len(games)
    assert len(metrics) <= MAX_METRICS_BYTES, len(metrics)
    assert all(one.sequence < other.sequence for one, other in pairwise(games)), [game.sequence for game in games]
    arguments: list[Argument] = [*identity, metrics]
    for game in games:
        arguments += game
    return read_reply(APPEND(client, keys.of_append(identity[1]), arguments))


def read_reply(answer: Any) -> Reply:
    """Reads what the append script returned."""
    status, throttle, stop, version, epoch, actors, appended, duplicates = map(int, answer)
    is_refused = status in (AppendStatus.OTHER_EPOCH, AppendStatus.FENCED)
    control = Control(bool(throttle), bool(stop) or is_refused, version, epoch, actors)
    return Reply(AppendStatus(status), control, appended, duplicates)
