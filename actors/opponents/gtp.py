"""A game with an engine that speaks GTP, which is told move by move what was played."""

from contextlib import suppress
from typing import Any

from shusaku.actors.arena.players import PASS, Forfeit, OpenGame, ShouldStop
from shusaku.actors.opponents.gtp_engine import GtpEngine, Refused
from shusaku.actors.opponents.process import EngineFault
from shusaku.actors.opponents.session import EngineSettings
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

COLOURS = ("b", "w")  # of the player who moves first, and of the other one
SET_UP = {"size": "boardsize", "komi": "komi"}  # parameters of a game that GTP has a command for


class GtpSession:
    """Moves travel as the texts of our games, which for Go are GTP vertices."""

    def __init__(
        self, key: str, program: str, game: Game, settings: EngineSettings, should_stop: ShouldStop
    ) -> None:
        self.engine = GtpEngine([program, *settings.command[1:]], should_stop)
        self.name = ""
        self._key, self._game, self._settings = key, game, settings
        self._told = 0  # moves of the game under way

    def start(self) -> None:
        engine, seconds = self.engine, self._settings.start_seconds
        with suppress(Refused):  # an engine need not have a name
            self.name = engine.ask("name", seconds)
            with suppress(Refused):
                self.name = f"{self.name} {engine.ask('version', seconds)}"
        for option, value in self._settings.options.items():
            self._require(f"{option} {_written(value)}".strip(), seconds)
        for parameter, command in SET_UP.items():
            if parameter in self._game.params:
                self._require(f"{command} {_written(self._game.params[parameter])}", seconds, may_be_unknown=True)
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """An empty board, or the handicap stones that the game begins with."""
        self._require("clear_board", seconds)
        if stones := self._game.params.get("handicap", 0):
            self._require(f"fixed_handicap {stones}", seconds)
        self._told = 0

    def choose(self, game: OpenGame) -> int | Forfeit:
        engine, seconds = self.engine, self._settings.move_seconds
        for mover, text in game.moves[self._told :]:
            try:
                engine.ask(f"play {COLOURS[mover]} {text}", seconds)
            except Refused as error:
                if text == PASS:  # gtp-rhino's othello has no word for it, and every command names its colour anyway
                    continue
                raise EngineFault("refusal", f"would not take the legal move {text}: {error}") from None
        self._told = len(game.moves) + 1  # its own move needs no telling
        command = f"genmove {COLOURS[game.position.to_play]}"
        try:
            answer = engine.ask(command, seconds)
        except Refused as error:
            raise EngineFault("garbage", f"would not make a move: {error}") from None
        if answer.lower() == "resign":
            return Forfeit("resignation", "")
        return _action(game, answer, command)

    def end(self, game: OpenGame) -> None:
        """GTP has no word for it."""

    def _require(self, command: str, seconds: float, *, may_be_unknown: bool = False) -> None:
        """UsageError where it refuses; an engine for one board has no command to choose it (`unknown command`)."""
        try:
            self.engine.ask(command, seconds)
        except Refused as error:
            if may_be_unknown and "unknown command" in str(error).lower():
                return
            raise UsageError(f"{self._key}.command={self._settings.text}: the engine answers `? {error}` "
                             f"to `{command}`; use an engine, or options, for {_described(self._game)}") from None


def _action(game: OpenGame, answer: str, command: str) -> int:
    """The action of a move's text, however it is capitalized; EngineFault where it is none, or illegal."""
    if len(answer.split()) != 1:
        raise EngineFault("garbage", f"answered {answer[:80]!r} to {command}, which is no move")
    reason = ""
    for text in dict.fromkeys((answer, answer.upper(), answer.lower())):
        try:
            return game.position.from_move(text)
        except ValueError as error:
            reason = reason or str(error)
    raise EngineFault("illegal_move", f"at ply {game.position.ply}: {reason[:120]}")


def _written(value: Any) -> str:
    """As GTP writes it: 7.0 -> 7, 7.5 -> 7.5, true -> true."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _described(game: Game) -> str:
    return " ".join([game.name, *(f"{name}={_written(value)}" for name, value in game.params.items())])
