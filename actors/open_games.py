"""The open games of an actor: they are saved now and then and at its end, and its successor goes on with them.

A saved game is its moves with their columns, not the search of the position that it has reached: Go on 19 x 19 takes a
few kilobytes a game, its trees a thousand times as much.  So a game loses the plies since it was saved and the running
search, and never its beginning.  `replay.stream.open_games` tells why none ends twice.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from shusaku.common._core import RowRing
from shusaku.common.codec import CodecError
from shusaku.common.messages import OpenGame
from shusaku.common.open_game_codec import decode_open_game, encode_open_game
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.open_games import MAX_TAKES, TakenGames
from shusaku.replay.validation import InvalidRecordError, Validation

FIRST_SECONDS = 20.0  # from the restored games to their next save, which shows that they end no actor
MAX_TEXT = 250  # characters of a metric
JITTER = 0.2  # of the time between two saves, so that many actors do not save at once


class OpenGamePlayer(Protocol):
    """SelfPlay or PipelinedSelfPlay."""

    sequence: int  # of the next finished game

    @property
    def size(self) -> int:
        """Parallel games."""

    def open_games(self) -> list[OpenGame]:
        """The games that go on."""

    def resume(self, index: int, game: OpenGame) -> None:
        """Goes on with this game; ValueError if that is impossible."""


class OpenGames:
    """Saves and restores the games of one player.  For the thread that plays."""

    def __init__(
        self, player: OpenGamePlayer, validation: Validation, *, seconds: float,
        take: Callable[[], TakenGames], put: Callable[[int, Mapping[str, bytes]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds` between two saves; `take` and `put` as in `replay.stream.open_games` and its `AsyncWriter`."""
        self.restored = 0  # games
        self.dropped: Counter[str] = Counter()  # saved games that were not restored, by the reason
        self._player, self._validation = player, validation
        self._seconds, self._take, self._put, self._clock = seconds, take, put, clock
        self._is_restored = False
        self._due = float("inf")

    def restore(self) -> bool:
        """Goes on with the saved games, once; False if the replay does not answer: call it again later."""
        if self._is_restored:
            return True
        try:
            taken = self._take()
        except ReplayUnavailable:
            return False
        self._is_restored = True
        self._due = self._clock() + min(FIRST_SECONDS, self._seconds)
        if taken.takes > MAX_TAKES:
            reason = f"{MAX_TAKES} actors in a row ended soon after they went on with them"
            self.dropped[reason] += len(taken.games)
            return True
        self.resume(taken.games.items())
        return True

    def resume(self, saved: Iterable[tuple[str, bytes]]) -> None:
        """Goes on with these games (name, encoded), the longest first; before the first step of the player."""
        games = [game for name, data in saved if (game := self._decode(name, data)) is not None]
        games.sort(key=lambda game: len(game.record), reverse=True)
        for game in games:
            if self.restored == self._player.size:
                self.dropped["there are more than actors.games_per_actor; the longest go on"] += 1
                continue
            try:
                self._player.resume(self.restored, game)
                self.restored += 1
            except ValueError as error:
                self.dropped[str(error)] += 1

    def save_if_due(self) -> None:
        """Saves the games if the last save is long enough ago; between two steps of the player."""
        if self._clock() >= self._due:
            self.save()

    def save(self) -> None:
        """Saves the games; between two steps of the player, and before games that end later are put."""
        if not self._is_restored:
            return  # those of before stay
        self._put(self._player.sequence, {game.open_id: encode_open_game(game) for game in self._player.open_games()})
        self._due = self._clock() + self._seconds * random.uniform(1 - JITTER, 1 + JITTER)

    def metrics(self) -> dict[str, int | float | str]:
        """For the actor's heartbeat."""
        lines = (f"{count:,} open games were dropped: {reason}" for reason, count in self.dropped.most_common(1))
        return {"restored_games": self.restored, "dropped_games": self.dropped.total(),
                "dropped": next(lines, "")[:MAX_TEXT]}

    def _decode(self, name: str, data: bytes) -> OpenGame | None:
        """The game, if it is a valid one of this run."""
        try:
            game = decode_open_game(name, data)
            self._validation.check_game(game.record)
            if game.record.config_hash != self._validation.config_hash:
                raise InvalidRecordError("they were played under other settings of game, search or self_play")
            RowRing(self._validation.game, 1).append(game.record, self._validation.own_komi(game.record))
            return game
        except (CodecError, InvalidRecordError, ValueError) as error:
            self.dropped[str(error)] += 1
            return None
