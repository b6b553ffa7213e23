"""What an engine is given, and what a player asks of it in every protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from shusaku.actors.arena.players import Forfeit, OpenGame
from shusaku.actors.opponents.process import EngineProcess

MOVE_LIMIT = ("movetime_ms", 100)  # every engine obeys a time; nodes and depth are not known to all of them (gpsshogi)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How engines of one player are started and treated."""

    command: tuple[str, ...]  # program and arguments
    options: Mapping[str, Any]  # gtp: commands after the start, {level: 1} is sent as `level 1`; uci, usi: options
    start_seconds: float  # for each answer until it is ready for its first game
    move_seconds: float  # for each answer afterwards
    protocol: str = "gtp"  # | uci | usi
    limit: tuple[str, int] = MOVE_LIMIT  # of a move, uci and usi: nodes | depth | movetime_ms, and how many

    @property
    def text(self) -> str:
        """The command as a message names it."""
        return " ".join(self.command)


class EngineSession(Protocol):
    """One process, which plays one game after the other.

    Every method raises EngineFault where the engine fails, and Stopped when the match is stopped.
    """

    @property
    def engine(self) -> EngineProcess: ...

    @property
    def name(self) -> str: ...  # what it calls itself; empty where it has not said so

    def start(self) -> None:
        """Makes it ready for its first game; UsageError when it will not play this game, or knows no such option."""
        ...

    def begin(self, seconds: float) -> None:
        """Makes it ready for another one."""
        ...

    def choose(self, game: OpenGame) -> int | Forfeit: ...

    def end(self, game: OpenGame) -> None:
        """Tells it how its game ended, where the protocol has words for it."""
        ...
