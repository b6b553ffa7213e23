"""UCI, without pipes: lines go in, lines come out, and every `go` is answered by exactly one `bestmove`.

Meyer-Kahlen and Huber, "Description of the universal chess interface", 2004.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import metadata

from shusaku.actors.analysis.report import MoveReport, Report
from shusaku.common._core import Position
from shusaku.common.config.schema import MOST_THREADS, EngineConfig
from shusaku.deploy.protocols.clock import LagReserve
from shusaku.deploy.protocols.line_loop import Say
from shusaku.deploy.protocols.opening import OpenedAnalysis
from shusaku.deploy.protocols.uci.go import GoRequest, read_go
from shusaku.deploy.protocols.uci.info import InfoStyle, info_lines
from shusaku.deploy.protocols.uci.options import Option, read_setoption
from shusaku.deploy.protocols.uci.positions import read_position, without_past
from shusaku.deploy.protocols.uci.thinking import Thinking
from shusaku.deploy.protocols.variation import play_variation

FIRST_INFO_S = 0.1  # after which a search is reported; then twice as long
MOST_INFO_S = 1.0  # between two reports
Open = Callable[[int], OpenedAnalysis]  # with so many threads


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words in which USI differs from UCI."""

    name: str  # uci | usi
    set_up: str  # the word before the text of a position: fen | sfen
    letters: str  # of the players, who moves first before: their clocks are wtime, btime
    new_game: str
    mate_in_plies: bool
    options: tuple[Option, ...]
    commands: tuple[str, ...] = ()  # besides those of both


def common_options(settings: EngineConfig, threads: int) -> tuple[Option, ...]:
    """Those of both protocols."""
    return (
        Option("Threads", threads, 1, MOST_THREADS),
        Option("MultiPV", 1, 1, 500),
        Option("Move Overhead", settings.lag_ms, 0, 60_000),
        Option("Clear Hash"),
    )


def uci_dialect(settings: EngineConfig, threads: int) -> Dialect:
    """UCI's words."""
    options = (*common_options(settings, threads), Option("Ponder", False), Option("UCI_ShowWDL", False))
    return Dialect("uci", "fen", "wb", "ucinewgame", False, options)


@dataclass
class _Search:
    """The state of the present `go`."""

    position: Position
    next_info: float
    pause: float = FIRST_INFO_S


class UciEngine:
    """One client's engine; all of it is called from one thread."""

    def __init__(
        self, dialect: Dialect, open_analysis: Open, say: Say, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Opens the analysis at once, beside the loop, because a client waits for `uciok` a few seconds only."""
        self.dialect, self._open, self._say, self._now = dialect, open_analysis, say, now
        self._values: dict[str, int | bool | None] = {option.name: option.default for option in dialect.options}
        self._pool = ThreadPoolExecutor(1, "opening")
        self._threads = self._number("Threads")  # that the analysis was opened with
        self._opening: Future[OpenedAnalysis] = self._pool.submit(open_analysis, self._threads)
        self._opened: OpenedAnalysis | None = None
        self._reserve = LagReserve(self._number("Move Overhead") / 1000)
        self._thinking: Thinking | None = None
        self._position: Position | None = None
        self._search: _Search | None = None
        self._over: tuple[Position, GoRequest] | None = None  # a `go` without moves whose answer is held
        self._is_new_game = False
        self._commands: dict[str, Callable[[Sequence[str]], None]] = {
            dialect.name: self._introduce, "isready": self._is_ready, "setoption": self._set_option,
            dialect.new_game: self._new_game, "position": self._set_position, "go": self._go, "stop": self._stop,
            "ponderhit": self._ponder_hit, "debug": lambda _: None, "register": lambda _: None,
        }

    # --- the loop's side ---------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether something may become known without a line."""
        if self._opened is None:
            return True
        return self._thinking is not None and self._thinking.is_active and not self._thinking.waits_for_client

    def receive(self, line: str) -> bool:
        """Takes a line; False: the client asked for the end.  Unknown words before a command are skipped, as in UCI."""
        words = line.split()
        known = next((at for at, word in enumerate(words) if word in self._commands or word == "quit"), None)
        if known is None:
            if words:
                self._complain(f"unknown command {words[0][:40]!r}")
            return True
        if words[known] == "quit":
            return False
        self._commands[words[known]](words[known + 1 :])
        return True

    def advance(self) -> None:
        """Says the reports and answers that are due.  UsageError if the analysis could not be opened."""
        if self._opened is None and self._opening.done():
            self._ready()
        if self._thinking is None or self._search is None:
            return
        if self._is_due(self._thinking):
            self._finish()
        elif self._now() >= self._search.next_info:
            self._report()

    def end(self) -> None:
        """Answers a `go` that is open, and releases the threads.  UsageError as in `advance`."""
        try:
            self._finish()
        finally:
            self._pool.shutdown()
            self._opening.result().analysis.close()

    # --- commands ----------------------------------------------------------------------------------------------------

    def _introduce(self, words: Sequence[str]) -> None:
        self._say(f"id name Shusaku {metadata.version('shusaku')}")
        self._say("id author the Shusaku authors")
        for option in self.dialect.options:
            if option.is_declared:
                self._say(option.declaration())
        self._say(f"{self.dialect.name}ok")

    def _is_ready(self, words: Sequence[str]) -> None:
        if self._search is None:
            self._ready()
        self._say("readyok")

    def _set_option(self, words: Sequence[str]) -> None:
        try:
            option, value = read_setoption(words, self.dialect.options)
        except ValueError as error:
            self._complain(str(error))
            return
        self._values[option.name] = value
        if option.name == "Clear Hash":
            self._is_new_game = True
        self._reserve.asked_seconds = self._number("Move Overhead") / 1000

    def _new_game(self, words: Sequence[str]) -> None:
        self._finish()
        self._position, self._is_new_game = None, True

    def _set_position(self, words: Sequence[str]) -> None:
        """For the next `go`; a search that runs goes on with its own."""
        try:
            self._position = read_position(self._opened_analysis().game, words, self.dialect.set_up)
        except ValueError as error:
            self._complain(str(error))

    def _go(self, words: Sequence[str]) -> None:
        began = self._now()
        self._finish()  # the answer to the `go` before
        opened, thinking = self._ready()
        position = opened.game.start() if self._position is None else self._position.copy()
        letters = self.dialect.letters
        request, problems = read_go(words, letters[position.to_play], letters[1 - position.to_play])
        if position.is_terminal:
            with_moves = without_past(opened.game, position)
            if with_moves.is_terminal:
                self._over = position, request
                if not (request.is_infinite or request.is_ponder):
                    self._finish()
                return
            position = with_moves
        actions, illegal = _read_moves(position, request.moves)
        for problem in (*problems, *illegal):
            self._complain(problem)
        thinking.begin(position, _bounded(request, opened.simulations), actions, began)
        self._search = _Search(position, began + FIRST_INFO_S)

    def _stop(self, words: Sequence[str]) -> None:
        self._finish()

    def _ponder_hit(self, words: Sequence[str]) -> None:
        if self._thinking is not None and self._thinking.is_pondering:
            try:
                self._thinking.ponder_hit(self._now())
            except Exception as error:
                self._complain_of(error)  # the search has ended with it: its answer is due
        elif self._over is not None and not self._over[1].is_infinite:
            self._finish()

    # --- answers -----------------------------------------------------------------------------------------------------

    def _report(self, report: Report | None = None) -> None:
        """`info` lines of the running search, or of its last report."""
        search, thinking = self._search, self._thinking
        assert search is not None
        assert thinking is not None
        search.next_info, search.pause = self._now() + search.pause, min(MOST_INFO_S, 2 * search.pause)
        report = replace(report or self._opened_analysis().analysis.report(), seconds=thinking.seconds)
        shows_wdl = bool(self._values.get("UCI_ShowWDL"))
        style = InfoStyle(self._number("MultiPV"), shows_wdl, self.dialect.mate_in_plies)
        for line in info_lines(report, search.position, thinking.moves(report), style, thinking.kept):
            self._say(line)

    def _finish(self) -> None:
        """Ends the search if there is one, and answers it, or a `go` in a position without moves."""
        if self._over is not None:
            (position, _), self._over = self._over, None
            self._say_over(position)
        if self._search is None or self._thinking is None:
            return
        position, is_game_move = self._search.position, not self._thinking.is_held
        try:
            report = self._thinking.end()
        except Exception as error:
            self._complain_of(error)
            report = self._thinking.end()  # no thread searches any more
        self._report(report)
        self._search = None
        best = self._thinking.moves(report)[0]
        self._say(f"bestmove {self._best_move(report, position, best, is_game_move)}")

    def _is_due(self, thinking: Thinking) -> bool:
        """Whether an answer is due.  A search that has failed is answered with what it has found, once it may be."""
        try:
            return thinking.is_due()
        except Exception as error:
            self._complain_of(error)
            return not thinking.is_held

    def _best_move(self, report: Report, position: Position, best: MoveReport, is_game_move: bool) -> str:
        """The words behind `bestmove`; a search that was held until `stop` was no move of a game."""
        texts, end = play_variation(position, best.variation[:2])
        return f"{texts[0]} ponder {texts[1]}" if len(texts) > 1 and not end.is_terminal else texts[0]

    def _say_over(self, position: Position) -> None:
        """The answer to a `go` in a position without moves."""
        self._say(f"info depth 0 score {'mate 0' if position.outcome < 0 else 'cp 0'}")
        self._say("bestmove (none)")

    def _complain_of(self, error: Exception) -> None:
        """A fault of ours must not lose the client's game."""
        self._complain(f"internal error: {type(error).__name__}: {error}")

    def _complain(self, text: str) -> None:
        self._say(f"info string {' '.join(text.split())}")

    # --- the analysis ------------------------------------------------------------------------------------------------

    def _opened_analysis(self) -> OpenedAnalysis:
        """Waits until it is there."""
        if self._opened is None:
            self._opened = self._opening.result()
            self._thinking = Thinking(self._opened.game, self._opened.analysis, self._reserve, self._now)
        return self._opened

    def _ready(self) -> tuple[OpenedAnalysis, Thinking]:
        """The analysis as the options want it; called while nothing is searched."""
        opened = self._opened_analysis()
        if self._threads != self._number("Threads"):
            opened.analysis.close()
            self._threads, self._opened = self._number("Threads"), None
            self._opening = self._pool.submit(self._open, self._threads)
            opened = self._opened_analysis()
        if self._is_new_game:
            opened.analysis.clear()
            self._is_new_game = False
        assert self._thinking is not None
        return opened, self._thinking

    def _number(self, option: str) -> int:
        return int(self._values[option] or 0)


def _read_moves(position: Position, moves: Sequence[str]) -> tuple[tuple[int, ...], list[str]]:
    """The actions of `searchmoves`, and what is wrong with the others."""
    actions, problems = [], []
    for move in moves:
        try:
            actions.append(position.from_move(move))
        except ValueError as error:
            problems.append(f"searchmoves: {error}")
    return tuple(dict.fromkeys(actions)), problems


def _bounded(request: GoRequest, simulations: int) -> GoRequest:
    """A `go` without any limit is answered after the usual number of simulations."""
    return replace(request, nodes=simulations) if request.is_bare else request
