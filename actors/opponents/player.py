"""A player that is an external program: one engine process for each running game, and its faults."""

import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from shusaku.actors.arena.players import Forfeit, OpenGame, ShouldStop
from shusaku.actors.opponents.gtp import GtpEngine, GtpSession
from shusaku.actors.opponents.process import EngineError
from shusaku.actors.opponents.session import EngineSession, EngineSettings
from shusaku.actors.opponents.uci import UciEngine, UciSession
from shusaku.actors.opponents.uci_games import known_game
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

GAMES = "/usr/games:/usr/local/games"  # Debian's folder for engines, which is not in root's PATH


class EnginePlayer:
    """Speaks GTP, UCI or USI.

    A crash, an illegal move, an invalid answer, or no answer in time is a Forfeit; the next game gets a new process.
    At most `threads` engines think at once, so that a time limit is not spent waiting for a core.
    """

    def __init__(
        self, key: str, game: Game, settings: EngineSettings, *, threads: int, should_stop: ShouldStop = lambda: False
    ) -> None:
        """`key`: the setting of this player, for errors about its command.

        UsageError if there is no such program, or if its protocol does not know the game.
        """
        program = shutil.which(settings.command[0]) or shutil.which(settings.command[0], path=GAMES)
        if program is None:
            raise UsageError(f"{key}.command={settings.text}: there is no program {settings.command[0]}; "
                             "install it, or write its path")
        if settings.protocol != "gtp":
            known_game(key, settings.protocol, game)
        self._key, self._game, self._should_stop = key, game, should_stop
        self._program, self._settings = program, settings
        self._is_closing = threading.Event()
        self._name = ""
        self._sessions: dict[int, EngineSession] = {}  # by the number of the game
        self._idle: list[EngineSession] = []
        self._lock = threading.Lock()  # of the two above and the name
        self._pool = ThreadPoolExecutor(threads, "engine")

    @property
    def name(self) -> str:
        """The engine's own name; the program's name until the engine has sent it."""
        return self._name or self._settings.command[0].rpartition("/")[2]

    def choose(self, games: Sequence[OpenGame]) -> list[int | Forfeit]:
        """A move for each game; UsageError if the engine refuses the set-up of this game."""
        return list(self._pool.map(self._choose, games))

    def end(self, game: OpenGame) -> None:
        """Sends the result to the engine and keeps its process for another game."""
        with self._lock:
            session = self._sessions.pop(game.number, None)
        if session is None:
            return
        with suppress(EngineError):  # it died after its last move; `_begin` finds out
            session.end(game)
        with self._lock:
            self._idle.append(session)

    def close(self) -> None:
        """Ends all engines."""
        self._is_closing.set()  # after an error in one game others may still wait for a move
        self._pool.shutdown(cancel_futures=True)
        engines = [session.engine for session in [*self._sessions.values(), *self._idle]]
        with ThreadPoolExecutor(len(engines) + 1) as pool:  # an engine may take a second to quit
            list(pool.map(lambda engine: engine.close(), engines))
        self._sessions.clear()
        self._idle.clear()

    def _choose(self, game: OpenGame) -> int | Forfeit:
        try:
            session = self._sessions.get(game.number) or self._begin(game)
            return session.choose(game)
        except EngineError as fault:
            self._abandon(game)
            return Forfeit(fault.kind, str(fault))
        except BaseException:  # stopped in the middle of an answer, so the process cannot be used again
            self._abandon(game)
            raise

    def _abandon(self, game: OpenGame) -> None:
        with self._lock:
            session = self._sessions.pop(game.number, None)
        if session is not None:
            session.engine.close(at_once=True)

    def _begin(self, game: OpenGame) -> EngineSession:
        """An engine that is ready for a game: an idle one or a new one."""
        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is not None:
            try:
                session.begin(self._settings.move_seconds)
            except EngineError:  # between two games it loses none: another process takes over
                session.engine.close(at_once=True)
                session = None
            except BaseException:
                session.engine.close(at_once=True)
                raise
        if session is None:
            session = self._start()
        with self._lock:
            self._sessions[game.number] = session
        return session

    def _start(self) -> EngineSession:
        command = [self._program, *self._settings.command[1:]]
        session: EngineSession
        if self._settings.protocol == "gtp":
            session = GtpSession(GtpEngine(command, self._is_stopping), self._key, self._game, self._settings)
        else:
            session = UciSession(UciEngine(command, self._is_stopping), self._key, self._game, self._settings)
        try:
            session.start()
        except BaseException:
            session.engine.close(at_once=True)
            raise
        finally:
            with self._lock:
                self._name = self._name or " ".join(session.name.split())[:60]
        return session

    def _is_stopping(self) -> bool:
        return self._is_closing.is_set() or self._should_stop()
