"""Engines that speak the Go Text Protocol, version 2: a command, and its answer up to an empty line."""

from contextlib import suppress
from typing import Any

from shusaku.actors.arena.players import PASS, Forfeit, OpenGame
from shusaku.actors.opponents.process import EngineError, EngineProcess, quote
from shusaku.actors.opponents.session import EngineSession
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

COLOURS = ("b", "w")  # of the player who moves first, and of the other one
SET_UP = {"size": "boardsize", "komi": "komi"}  # parameters of a game that GTP has a command for
MAX_ANSWER = 1 << 16  # bytes


class RejectedError(Exception):
    """The engine answered `?`: it rejects the command and stays usable."""


class GtpEngine(EngineProcess):
    """One process that speaks GTP; one command at a time."""

    def ask(self, command: str, seconds: float) -> str:
        """The text of the answer, without its `=`.

        RejectedError with the text behind `?`; EngineError if the engine dies, takes longer, or sends no valid answer;
        StoppedError if the match is stopped.
        """
        if early := self.unread().strip():
            raise EngineError("garbage", f"said {quote(early)} before it was asked to {command}")
        self.send(command)
        answer = self.receive(
            command, seconds, lambda said: _take_answer(command, said), "the empty line that ends an answer"
        )
        text = answer[1:].decode(errors="replace").strip()
        if answer[:1] == b"?":
            raise RejectedError(text or "no reason given")
        return text


def _take_answer(command: str, said: bytes) -> tuple[bytes | None, bytes]:
    """The text up to the empty line that ends an answer (None if it is missing), and the text behind it."""
    text = said.replace(b"\r", b"").lstrip(b"\n")
    if text and text[:1] not in b"=?":
        raise EngineError("garbage", f"answered {quote(text)} to {command}; an answer begins with = or ?")
    answer, end, rest = text.partition(b"\n\n")
    if end:
        return answer, rest
    if len(text) > MAX_ANSWER:
        raise EngineError("garbage", f"answered {command} with more than {MAX_ANSWER:,} bytes: {quote(text)}")
    return None, text


class GtpSession(EngineSession):
    """Plays games with one process, which is told each move; the moves of our games are GTP vertices for Go."""

    engine: GtpEngine
    _told = 0  # moves of the current game that the engine knows

    def start(self) -> None:
        """Makes the engine ready for its first game; see `EngineSession`."""
        engine, seconds = self.engine, self._settings.start_seconds
        with suppress(RejectedError):  # an engine need not have a name
            self.name = engine.ask("name", seconds)
            with suppress(RejectedError):
                self.name = f"{self.name} {engine.ask('version', seconds)}"
        for option, value in self._settings.options.items():
            self._require(f"{option} {_format(value)}".strip(), seconds)
        for parameter, command in SET_UP.items():
            if parameter in self._game.params:
                self._require(f"{command} {_format(self._game.params[parameter])}", seconds, may_be_unknown=True)
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """Sets up an empty board, or the handicap stones that the game begins with."""
        self._require("clear_board", seconds)
        if stones := self._game.params.get("handicap", 0):
            self._require(f"fixed_handicap {stones}", seconds)
        self._told = 0

    def choose(self, game: OpenGame) -> int | Forfeit:
        """Sends the moves that the engine does not know and asks for its own."""
        engine, seconds = self.engine, self._settings.move_seconds
        for mover, text in game.moves[self._told :]:
            try:
                engine.ask(f"play {COLOURS[mover]} {text}", seconds)
            except RejectedError as error:
                if text == PASS:  # gtp-rhino's othello has no pass, and every command names its colour anyway
                    continue
                raise EngineError("refusal", f"would not take the legal move {text}: {error}") from None
        self._told = len(game.moves) + 1  # the engine knows its own move
        command = f"genmove {COLOURS[game.position.to_play]}"
        try:
            answer = engine.ask(command, seconds)
        except RejectedError as error:
            raise EngineError("garbage", f"would not make a move: {error}") from None
        if answer.lower() == "resign":
            return Forfeit("resignation", "")
        return _action(game, answer, command)

    def end(self, game: OpenGame) -> None:
        """GTP has no command for it."""

    def _require(self, command: str, seconds: float, *, may_be_unknown: bool = False) -> None:
        """UsageError if it refuses; an engine for a single board size has no command for it (`unknown command`)."""
        try:
            self.engine.ask(command, seconds)
        except RejectedError as error:
            if may_be_unknown and "unknown command" in str(error).lower():
                return
            raise UsageError(f"{self._key}.command={self._settings.text}: the engine answers `? {error}` "
                             f"to `{command}`; use an engine, or options, for {_describe(self._game)}") from None


def _action(game: OpenGame, answer: str, command: str) -> int:
    """The action of a move in any capitalization; EngineError if it is no move, or illegal."""
    if len(answer.split()) != 1:
        raise EngineError("garbage", f"answered {answer[:80]!r} to {command}, which is no move")
    reason = ""
    for text in dict.fromkeys((answer, answer.upper(), answer.lower())):
        try:
            return game.position.from_move(text)
        except ValueError as error:
            reason = reason or str(error)
    raise EngineError("illegal_move", f"at ply {game.position.ply}: {reason[:120]}")


def _format(value: Any) -> str:
    """In GTP's notation: 7.0 -> 7, 7.5 -> 7.5, true -> true."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _describe(game: Game) -> str:
    return " ".join([game.name, *(f"{name}={_format(value)}" for name, value in game.params.items())])
