"""A player that is a program of somebody else's: one engine process for each game under way, and its faults."""

import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from actors.gtp_engine import EngineFault, GtpEngine, Refused
from actors.players import PASS, Forfeit, OpenGame, ShouldStop
from common._core import Game
from common.errors import UsageError

COLOURS = ("b", "w")  # of the player who moves first, and of the other one
GAMES = "/usr/games:/usr/local/games"  # where Debian puts engines, and root's PATH does not look
SET_UP = {"size": "boardsize", "komi": "komi"}  # parameters of a game that GTP has a command for


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How engines of one player are started and treated."""

    command: tuple[str, ...]  # program and arguments
    options: Mapping[str, Any]  # commands after the start: {level: 1} is sent as `level 1`
    start_seconds: float  # for each answer until it is ready for its first game
    move_seconds: float  # for each answer afterwards


class _Session:
    """One process and how much of its game it has been told."""

    def __init__(self, engine: GtpEngine) -> None:
        self.engine = engine
        self.told = 0  # moves


class EnginePlayer:
    """Speaks GTP.  Moves travel as the texts of our games, which for Go are GTP vertices.

    A crash, an illegal move, an answer that is none, or no answer in time is a Forfeit; the next game gets a new
    process.  At most `threads` engines think at once, so that a time limit is not spent waiting for a core.
    """

    def __init__(
        self, key: str, game: Game, settings: EngineSettings, *, threads: int, should_stop: ShouldStop = lambda: False
    ) -> None:
        """`key`: how the user calls this player, for errors about its command; UsageError without such a program."""
        program = shutil.which(settings.command[0]) or shutil.which(settings.command[0], path=GAMES)
        if program is None:
            raise UsageError(f"{key}.command={' '.join(settings.command)}: there is no program {settings.command[0]}; "
                             "install it, or write its path")
        self._command = (program, *settings.command[1:])
        self._key, self._game, self._settings, self._should_stop = key, game, settings, should_stop
        self._is_closing = threading.Event()
        self._name = ""
        self._sessions: dict[int, _Session] = {}  # number of the game -> who plays it
        self._idle: list[_Session] = []
        self._lock = threading.Lock()  # of the two above and the name
        self._pool = ThreadPoolExecutor(threads, "engine")

    @property
    def name(self) -> str:
        """What the engine calls itself; the program's name before it has said so."""
        return self._name or self._settings.command[0].rpartition("/")[2]

    def choose(self, games: Sequence[OpenGame]) -> list[int | Forfeit]:
        """UsageError when the engine will not play this game at all, by its answer to the set-up."""
        return list(self._pool.map(self._choose, games))

    def end(self, game: OpenGame) -> None:
        with self._lock:
            session = self._sessions.pop(game.number, None)
            if session is not None:
                self._idle.append(session)

    def close(self) -> None:
        self._is_closing.set()  # after an error in one game others may still wait for a move
        self._pool.shutdown(cancel_futures=True)
        for session in [*self._sessions.values(), *self._idle]:
            session.engine.close()
        self._sessions.clear()
        self._idle.clear()

    def _choose(self, game: OpenGame) -> int | Forfeit:
        try:
            session = self._sessions.get(game.number) or self._begin(game)
            return self._move(session, game)
        except EngineFault as fault:
            self._abandon(game)
            return Forfeit(fault.kind, str(fault))
        except BaseException:  # stopped in the middle of an answer, which nobody waits for any more
            self._abandon(game)
            raise

    def _abandon(self, game: OpenGame) -> None:
        with self._lock:
            session = self._sessions.pop(game.number, None)
        if session is not None:
            session.engine.close(at_once=True)

    def _begin(self, game: OpenGame) -> _Session:
        """An engine that has cleared its board: one that is free, or a new one."""
        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is not None:
            try:
                self._clear(session.engine, self._settings.move_seconds)
            except EngineFault:  # it died, or fell silent, between two games, which loses neither
                session.engine.close(at_once=True)
                session = None
            except BaseException:
                session.engine.close(at_once=True)
                raise
        if session is None:
            session = _Session(self._start())
        session.told = 0
        with self._lock:
            self._sessions[game.number] = session
        return session

    def _start(self) -> GtpEngine:
        engine = GtpEngine(self._command, lambda: self._is_closing.is_set() or self._should_stop())
        seconds = self._settings.start_seconds
        try:
            with suppress(Refused):  # an engine need not have a name
                name = engine.ask("name", seconds)
                with suppress(Refused):
                    name = f"{name} {engine.ask('version', seconds)}"
                with self._lock:
                    self._name = self._name or " ".join(name.split())[:60]
            for option, value in self._settings.options.items():
                self._require(engine, f"{option} {_written(value)}".strip(), seconds)
            for parameter, command in SET_UP.items():
                if parameter in self._game.params:
                    value = _written(self._game.params[parameter])
                    self._require(engine, f"{command} {value}", seconds, may_be_unknown=True)
            self._clear(engine, seconds)
        except BaseException:
            engine.close(at_once=True)
            raise
        return engine

    def _clear(self, engine: GtpEngine, seconds: float) -> None:
        """An empty board, or the handicap stones that the game begins with."""
        self._require(engine, "clear_board", seconds)
        if stones := self._game.params.get("handicap", 0):
            self._require(engine, f"fixed_handicap {stones}", seconds)

    def _require(self, engine: GtpEngine, command: str, seconds: float, *, may_be_unknown: bool = False) -> None:
        """UsageError where it refuses; an engine for one board has no command to choose it (`unknown command`)."""
        try:
            engine.ask(command, seconds)
        except Refused as error:
            if may_be_unknown and "unknown command" in str(error).lower():
                return
            raise UsageError(f"{self._key}.command={' '.join(self._settings.command)}: the engine answers `? {error}` "
                             f"to `{command}`; use an engine, or options, for {_described(self._game)}") from None

    def _move(self, session: _Session, game: OpenGame) -> int | Forfeit:
        engine, seconds = session.engine, self._settings.move_seconds
        for mover, text in game.moves[session.told :]:
            try:
                engine.ask(f"play {COLOURS[mover]} {text}", seconds)
            except Refused as error:
                if text == PASS:  # gtp-rhino's othello has no word for it, and every command names its colour anyway
                    continue
                raise EngineFault("refusal", f"would not take the legal move {text}: {error}") from None
        session.told = len(game.moves) + 1  # its own move needs no telling
        command = f"genmove {COLOURS[game.position.to_play]}"
        try:
            answer = engine.ask(command, seconds)
        except Refused as error:
            raise EngineFault("garbage", f"would not make a move: {error}") from None
        if answer.lower() == "resign":
            return Forfeit("resignation", "")
        return _action(game, answer, command)


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
