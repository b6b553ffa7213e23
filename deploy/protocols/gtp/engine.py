"""The engine behind GTP, without input and output: a game, an analysis, clocks and rules.

The commands are in the tables of the modules beside this one; `commands.COMMANDS` has them all.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.analysis.report import Limits, Report
from shusaku.common._core import Game
from shusaku.common.search import Evaluate
from shusaku.deploy.protocols.clock import Clock, LagReserve, expected_moves, plan_move
from shusaku.deploy.protocols.gtp.game_state import PASS, GameState
from shusaku.deploy.protocols.gtp.rules import Rules, rules_of
from shusaku.deploy.protocols.gtp.text import COLOURS, LETTERS, CommandError
from shusaku.deploy.protocols.resignation import ResignationRule

Command = Callable[["Engine", Sequence[str]], "str | Thinking"]  # from the arguments to the answer
Owners = NDArray[np.int8]  # [H * W] 1: black's point, -1: white's, 0: of neither


@dataclass(frozen=True)
class Settings:
    """What the command line says about an engine."""

    simulations: int = 400  # of a move, if there is no clock
    limits_clock: bool = False  # whether `simulations` end a move on a clock, too
    ponder: bool = False
    resign_value: float = -1.0  # a player who expects less resigns, in [-1, 1]; -1: never
    resign_moves: int = 3  # if so many searches in a row agree
    reserve_seconds: float = 0.05  # that a move takes on its way to the client's clock
    name: str = "Shusaku"
    version: str = ""


@dataclass(frozen=True)
class Thinking:
    """An answer that takes a search: the loop starts it, prints reports, and ends it with `finish`."""

    limits: Limits
    finish: Callable[[Report], str]  # the end of the answer
    show: Callable[[Report], str] | None = None  # a line of the answer while the search runs
    interval: float = 1.0  # seconds between these lines
    ends_at_input: bool = False  # whether the next line of input ends the search, and nothing else does


class Engine:
    """One game and its search.  `make_analysis` makes an analysis of a game with other rules, and the same network."""

    def __init__(
        self, make_analysis: Callable[[Game], Analysis], evaluate: Evaluate, game: Game, settings: Settings,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`evaluate` answers kata-raw-nn, while no search runs; `log` takes lines that are no protocol."""
        self.settings, self.evaluate = settings, evaluate
        self.state = GameState(game)
        self.rules = rules_of(game.params) if game.name == "go" else Rules()
        self.clocks = [Clock(), Clock()]
        self._whole_clock = Clock()  # as a game begins with it
        self._make_analysis, self._log = make_analysis, log
        self._noted: set[str] = set()
        self.owners: tuple[tuple[int, bool], Owners] | None = None  # of the last position that was scored
        self._reserve = LagReserve(settings.reserve_seconds)
        self._analysis = make_analysis(self.state.game)
        self._analysed = self.state.game
        self._resignations = [ResignationRule(settings.resign_value, settings.resign_moves) for _ in range(2)]
        self._may_ponder = False

    @property
    def analysis(self) -> Analysis:
        """The search, by the rules of today."""
        if self._analysed is not self.state.game:
            self._analysis.close()
            self._analysis, self._analysed = self._make_analysis(self.state.game), self.state.game
        return self._analysis

    def close(self) -> None:
        """Ends the search."""
        self._analysis.close()

    def run(self, command: Command, words: Sequence[str]) -> str | Thinking:
        """The answer of a command, or the search that it takes, which `start` begins; CommandError if it fails."""
        try:
            self._analysis.stop()
        except Exception as error:  # of the search between two commands: no thread searches any more
            self._log(f"the search of the opponent's time failed: {type(error).__name__}: {error}")
        return command(self, words)

    def start(self, thinking: Thinking) -> None:
        """Begins a search of the position that `think` or `generate` has set."""
        self.analysis.start(thinking.limits)

    def note_once(self, line: str) -> None:
        """Logs the line, unless it was logged before."""
        if line not in self._noted:
            self._noted.add(line)
            self._log(line)

    def ponder(self) -> None:
        """Searches until the next command, if that is wanted and a game is on."""
        position = self.state.position
        if self.settings.ponder and self._may_ponder and not position.is_terminal:
            self.analysis.set_position(position)
            self.analysis.start(Limits())

    def begin_game(self) -> None:
        """An empty board."""
        self.state.clear()
        self.clocks = [self._whole_clock, self._whole_clock]
        self._may_ponder = False
        for rule in self._resignations:
            rule.begin_game()

    def set_time(self, clock: Clock) -> None:
        """This clock for both players, in this game and in those that follow."""
        self._whole_clock = clock
        self.clocks = [clock, clock]

    def place(self, colour: int) -> None:
        """Lets the next search be of the position in which this colour moves; CommandError if the game is over."""
        try:
            position = self.state.turn_to(colour)
        except ValueError:
            raise CommandError("the game is over, or it is the other player's turn") from None
        self.analysis.set_position(position)

    @property
    def passes(self) -> bool:
        """Whether a game of Othello is over: other programs pass then, until two passes end it."""
        return self.state.game.name == "othello" and self.state.position.is_terminal

    def generate(
        self, colour: int, *, plays: bool = True, actions: tuple[int, ...] = (),
        show: Callable[[Report], str] | None = None, interval: float = 1.0, prefix: str = "",
    ) -> str | Thinking:
        """The search of a move, as the clock allows; the move is played when it has ended, if `plays`."""
        state = self.state
        if self.passes:
            if plays:
                state.play(colour, PASS)
            return prefix + PASS
        begin = time.monotonic()
        self.place(colour)
        seconds = plan_move(
            self.clocks[colour], expected_moves(state.game, state.position.ply), self._reserve.seconds
        ).aim if plays else float("inf")
        is_on_clock = seconds < float("inf")
        simulations = self.settings.simulations if not is_on_clock or self.settings.limits_clock else None
        limits = Limits(simulations, seconds if is_on_clock else None, actions, full_report=show is not None)

        def finish(report: Report) -> str:
            best = next(move for move in report.moves if not actions or move.action in actions)
            if plays:
                taken = time.monotonic() - begin
                self.clocks[colour] = self.clocks[colour].spend(taken)
                if is_on_clock:
                    self._reserve.record(seconds, taken)
            if plays and (self._resignations[colour].record(report.value) or report.resigns):
                self._may_ponder = False
                return f"{prefix}resign"
            if plays:
                state.play(colour, best.move)
                self._may_ponder = True
            return prefix + vertex(best.move)

        return Thinking(limits, finish, show, interval)


def vertex(move: str) -> str:
    """A move as GTP writes vertices: D4, pass."""
    return move if move == PASS else move.upper()


def colour_to_move(engine: Engine, words: Sequence[str]) -> tuple[int, Sequence[str]]:
    """The colour that the first argument names, else the one whose turn it is; and the other arguments."""
    if words and words[0].lower() in COLOURS:
        return COLOURS[words[0].lower()], words[1:]
    return engine.state.position.to_play, words


def format_score(points: float) -> str:
    """Black's points as a result: `B+3.5`, `W+0.5`, `0`."""
    return "0" if points == 0 else f"{LETTERS[points < 0]}+{abs(points):g}"
