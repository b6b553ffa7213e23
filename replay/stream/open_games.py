"""Open games in Redis: an actor saves those that it plays, and its successor takes them and goes on.

The rule that keeps each game from ending twice: the hash of an actor's open games never holds a game whose record was
appended.  Three things keep it:

1. The append script removes a game from the hash in the step that appends its record.
2. Games are saved as they were at one moment, between two finished games: `sequence` is the number of the first one
   that ended later.  They are sent after all games before it and before all others (`AsyncWriter`), and the script
   refuses them if such a later game was appended first.
3. A successor takes the games in the step that fences its predecessor, which can append nothing from then on.

So a game that a crashed actor had finished, but not appended, goes on from where it was saved; one that was appended is
gone from the hash.  What is lost is what was played since the games were saved.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from shusaku.replay.stream.client import Link, connect, translate_redis_errors
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.scripts import SAVE_OPEN_GAMES, TAKE_OPEN_GAMES, Argument, Caller

MAX_CALL_BYTES = 1 << 20  # of the games of one call, unless a single game has more
MAX_TAKES = 4  # of the same saved games: fewer than failures in a row that end a run

Identity = tuple[int, int, int]  # epoch, actor, incarnation


class SaveStatus(IntEnum):
    """What a save has done; the numbers are those of `save_open_games.lua`."""

    DONE = 0
    LOST = 1  # the server has no data of the run
    OTHER_EPOCH = 2
    FENCED = 3
    NO_ROOM = 4
    LATE = 5

    @property
    def trouble(self) -> str:
        """Why the games were not saved, if the user can do something about it."""
        if self is not SaveStatus.NO_ROOM:
            return ""
        return "the open games of all actors have no room in the replay server; raise replay.megabytes"


class TakenGames(NamedTuple):
    """The open games that an actor's predecessors have saved."""

    games: dict[str, bytes]  # by name, see `common.open_game_codec`
    takes: int  # how often they were taken since they were saved; more than MAX_TAKES: they are dropped, and empty


class SaveCall(NamedTuple):
    """One call of an upload."""

    number: int
    sequence: int
    games: dict[str, bytes]
    stay: tuple[str, ...] | None  # of the last call: the names of all games of the upload, the others are removed


class Upload:
    """Games on their way into the hash, in several calls if they are large; each call may be made again."""

    def __init__(self, number: int, sequence: int, games: Mapping[str, bytes]) -> None:
        """`number`: of this save in the incarnation, ascending; for the others see `AsyncWriter.put_open_games`."""
        self.number, self.sequence = number, sequence
        self.failures = 0  # calls without an answer
        self._ids = tuple(games)
        self._chunks: list[dict[str, bytes]] = [{}]  # not saved yet
        size = 0
        for open_id, data in games.items():
            size += len(data)
            if size > MAX_CALL_BYTES and self._chunks[-1]:
                self._chunks.append({})
                size = len(data)
            self._chunks[-1][open_id] = data

    def next_call(self) -> SaveCall:
        """The call that comes next."""
        return SaveCall(self.number, self.sequence, self._chunks[0], self._ids if len(self._chunks) == 1 else None)

    def advance(self) -> bool:
        """The last call is done; whether it was the last one of all."""
        del self._chunks[0]
        return not self._chunks


def save_open_games(client: Caller, keys: RunKeys, identity: Identity, call: SaveCall) -> SaveStatus:
    """Makes the call; errors are those of redis-py."""
    # A space stands for the empty list: none stays.
    ids = "" if call.stay is None else " ".join(call.stay) or " "
    arguments: list[Argument] = [*identity, call.number, call.sequence, ids]
    for open_id, data in call.games.items():
        arguments += [open_id, data]
    return SaveStatus(int(SAVE_OPEN_GAMES(client, keys.of_open_games(identity[1]), arguments)))


def take_open_games(url: str, run_id: str, identity: Identity, deadline: float = 5.0) -> TakenGames:
    """Fences all predecessors of this incarnation and returns the games that they have saved.

    There are none if this incarnation is fenced itself or the data was lost.  May be called again after
    ReplayUnavailable.
    """
    keys = RunKeys.of(run_id)
    link = Link(connect(url, deadline))
    try:
        with translate_redis_errors(url):
            answer = TAKE_OPEN_GAMES(link, keys.of_open_games(identity[1]), [*identity, MAX_TAKES])
    finally:
        link.close()
    names = [name.decode(errors="replace") for name in answer[2::2]]
    return TakenGames(dict(zip(names, answer[3::2], strict=True)), int(answer[1]))
