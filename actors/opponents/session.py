"""The settings of an engine, and the interface of a session with it in every protocol."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shusaku.actors.arena.players import Forfeit, OpenGame
from shusaku.actors.opponents.process import EngineProcess
from shusaku.common._core import Game

MOVE_LIMIT = ("movetime_ms", 100)  # every engine obeys a time; some do not know nodes and depth (gpsshogi)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How the engines of one player are started and used."""

    command: tuple[str, ...]  # program and arguments
    options: Mapping[str, Any]  # gtp: commands after the start, {level: 1} is sent as `level 1`; uci, usi: options
    start_seconds: float  # for each answer until it is ready for its first game
    move_seconds: float  # for each answer afterwards
    protocol: str = "gtp"  # | uci | usi
    limit: tuple[str, int] = MOVE_LIMIT  # of a move, uci and usi: nodes | depth | movetime_ms, and its number

    @property
    def text(self) -> str:
        """The command as text, for messages."""
        return " ".join(self.command)


class EngineSession(ABC):
    """One process, which plays one game after the other.

    Every method raises EngineError if the engine fails, and StoppedError if the match is stopped.
    """

    def __init__(self, engine: EngineProcess, key: str, game: Game, settings: EngineSettings) -> None:
        """`key`: the setting of the player, for errors about its command."""
        self.engine = engine
        self.name = ""  # the engine's own; empty if it has not sent one
        self._key, self._game, self._settings = key, game, settings

    @abstractmethod
    def start(self) -> None:
        """Makes it ready for its first game; UsageError if it refuses this game or an option."""

    @abstractmethod
    def begin(self, seconds: float) -> None:
        """Makes it ready for another game."""

    @abstractmethod
    def choose(self, game: OpenGame) -> int | Forfeit:
        """An action in this game."""

    @abstractmethod
    def end(self, game: OpenGame) -> None:
        """Sends the result of the game, if the protocol has a command for it."""
