"""How long to think about a move: the clocks of GTP, UCI and USI in one form, and a plan that never oversteps them."""

import math
from collections import deque
from dataclasses import dataclass, replace

from shusaku.common._core import Game

FEWEST_MOVES = 10.0  # that a player is assumed to have before them, so that a long game never runs dry
REMEMBERED_MOVES = 40  # whose delays count for the reserve
CUSHION = 4  # reserves of main time that are kept where no overtime follows: one late answer loses the game
LONGEST_WAY = 1.0  # seconds; a longer one is not a way
COMFORT = 8  # reserves that are left: then every move is searched, be it for a fortieth of what is left
LEAST_SHARE = 1 / 40

# How many plies a game of ours lasts, about; for the games that fill their board: as a share of its cells.
TYPICAL_PLIES = {"chess": 100.0, "shogi": 120.0, "minishogi": 60.0}
TYPICAL_FILL = {"go": 0.8, "hex": 0.6, "othello": 1.0, "connect_four": 0.8, "tic_tac_toe": 1.0}
USUAL_FILL = 0.8  # of a game that the table does not know


@dataclass(frozen=True, slots=True)
class Clock:
    """What one player's clock shows when their turn begins; without arguments there is no limit.

    First main time is used.  When it has ended, overtime begins: periods of `period_seconds`, in each of which
    `period_moves` moves have to be made; then the next period begins, with its full time.  One move and several
    periods are Japanese byo-yomi, in which a period that runs out is lost; several moves and one period are Canadian.
    """

    main_seconds: float = math.inf
    increment_seconds: float = 0.0  # added to the main time after each move (Fischer)
    moves_to_go: int = 0  # moves until main time is added again; 0: it is for the whole game
    period_seconds: float = 0.0  # 0: there is no overtime
    period_moves: int = 1
    periods: int = 1  # that are left, the present one included
    period_left: float | None = None  # seconds of the present period; None: all of it
    period_moves_left: int = 0  # moves to make in it; 0: all of them

    @classmethod
    def absolute(cls, seconds: float) -> "Clock":
        """So many seconds for the whole game."""
        return cls(max(0.0, seconds))

    @classmethod
    def fischer(cls, seconds: float, increment: float, moves_to_go: int = 0) -> "Clock":
        """An increment after each move; `moves_to_go`: moves until the next time control."""
        return cls(max(0.0, seconds), max(0.0, increment), moves_to_go)

    @classmethod
    def canadian(cls, main: float, period: float, moves: int) -> "Clock":
        """After the main time, `moves` moves in each `period` seconds."""
        return cls(max(0.0, main), period_seconds=max(0.0, period), period_moves=max(1, moves))

    @classmethod
    def byo_yomi(cls, main: float, period: float, periods: int = 1) -> "Clock":
        """After the main time, `periods` periods, of which a move that takes longer loses one."""
        return cls(max(0.0, main), period_seconds=max(0.0, period), periods=max(1, periods))

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no limit at all."""
        return math.isinf(self.main_seconds)

    @property
    def left_in_period(self) -> float:
        """Seconds of the present period, or of the first one while main time is left; 0 without overtime."""
        return self.period_seconds if self.period_left is None else self.period_left

    @property
    def moves_in_period(self) -> int:
        """Moves that have to be made in `left_in_period`."""
        return self.period_moves_left or self.period_moves

    @property
    def left(self) -> float:
        """Seconds after which the game is lost on time, if no move is made."""
        return self.main_seconds + self.left_in_period + (self.periods - 1) * self.period_seconds

    def show_left(self, seconds: float, moves: int) -> "Clock":
        """GTP's `time_left`: main time if `moves` is 0, else of overtime.

        `moves` are those of the period (Canadian, also if no overtime was agreed on), or the periods that are left
        (byo-yomi), as KGS counts them.
        """
        seconds = max(0.0, seconds)
        if moves <= 0:
            return replace(self, main_seconds=seconds, period_left=None, period_moves_left=0)
        if not self.period_seconds:
            return Clock.canadian(0.0, seconds, moves)
        if self.period_moves == 1:
            return replace(self, main_seconds=0.0, period_left=seconds, periods=moves, period_moves_left=0)
        return replace(self, main_seconds=0.0, period_left=seconds, period_moves_left=moves)

    def spend(self, seconds: float) -> "Clock":
        """The clock after a move that took so long; `left` is 0 if it was too long."""
        if self.is_unlimited:
            return self
        seconds = max(0.0, seconds)
        if not self.period_seconds and seconds >= self.main_seconds:
            return replace(self, main_seconds=0.0)
        if seconds < self.main_seconds:
            return replace(self, main_seconds=self.main_seconds - seconds + self.increment_seconds,
                           moves_to_go=max(0, self.moves_to_go - 1))
        return self._spend_overtime(seconds - self.main_seconds)

    def _spend_overtime(self, seconds: float) -> "Clock":
        if seconds >= self.left - self.main_seconds:
            return replace(self, main_seconds=0.0, periods=1, period_left=0.0)
        left, periods = self.left_in_period - seconds, self.periods
        if left <= 0:
            lost = min(periods - 1, math.floor(-left / self.period_seconds) + 1)
            left, periods = max(0.0, left + lost * self.period_seconds), periods - lost
        if self.moves_in_period > 1:
            return replace(self, main_seconds=0.0, periods=periods, period_left=left,
                           period_moves_left=self.moves_in_period - 1)
        return replace(self, main_seconds=0.0, periods=periods, period_left=None, period_moves_left=0)


@dataclass(frozen=True, slots=True)
class ThinkingTime:
    """How long to search for one move, in seconds; 0: answer at once."""

    aim: float
    limit: float  # that a search without a clear best move may go on to; at least `aim`


def plan_move(clock: Clock, moves: float, reserve: float) -> ThinkingTime:
    """Shares the time among the `moves` >= 1 that the player still expects to make.

    `reserve`: seconds that a move takes besides its search, on the way to the arbiter's clock and back.  The plan ends
    at least so long before the time is over, and loses no period of byo-yomi.  It is 0, so that a move comes at once,
    only if little more than the reserve is left, or the cushion of a game without overtime has to grow again.
    """
    if clock.is_unlimited:
        return ThinkingTime(math.inf, math.inf)
    moves = min(moves, clock.moves_to_go) if clock.moves_to_go else moves
    main, period, period_moves = clock.main_seconds, clock.left_in_period, clock.moves_in_period
    most = max(0.0, main + period - reserve)
    if not period and not clock.moves_to_go:
        main -= CUSHION * reserve
        if main <= 0:
            return ThinkingTime(0.0, 0.0)
    gain = clock.increment_seconds - reserve
    aim = main / moves + period / period_moves + gain
    limit = 2 * main / (moves + 1) + 2 * period / (period_moves + 1) + gain  # all of it for the last move
    least = LEAST_SHARE * most if most >= COMFORT * reserve else 0.0
    return ThinkingTime(min(most, max(least, aim)), min(most, max(least, limit)))


def expected_moves(game: Game, ply: int) -> float:
    """Moves that each player still makes, about; never fewer than FEWEST_MOVES, so that long games keep some time."""
    rows, columns = game.observation_shape[1:]
    length = TYPICAL_PLIES.get(game.name, TYPICAL_FILL.get(game.name, USUAL_FILL) * rows * columns)
    return max(FEWEST_MOVES, (min(length, game.max_plies) - ply) / 2)


class LagReserve:
    """The reserve of `plan_move`: what the user asks for, and how late the last moves were beyond their plans."""

    def __init__(self, asked_seconds: float) -> None:
        self.asked_seconds = asked_seconds
        self._delays: deque[float] = deque(maxlen=REMEMBERED_MOVES)
        self._ways: deque[float] = deque(maxlen=REMEMBERED_MOVES)

    @property
    def seconds(self) -> float:
        """The second longest delay counts, so that one hiccup does not cost the next moves their time."""
        return self.asked_seconds + _second_longest(self._delays) + _second_longest(self._ways)

    def record(self, planned_seconds: float, taken_seconds: float) -> None:
        """After a move that had a plan."""
        self._delays.append(max(0.0, taken_seconds - planned_seconds))

    def record_way(self, expected: Clock, shown: Clock) -> None:
        """What the way to the arbiter's clock and back has cost: less is left than was expected after the last move."""
        is_same_control = shown.increment_seconds == expected.increment_seconds and not shown.moves_to_go
        seconds = expected.main_seconds - shown.main_seconds
        if is_same_control and not shown.period_seconds and 0 <= seconds < LONGEST_WAY:  # else another game, or clock
            self._ways.append(seconds)


def _second_longest(seconds: "deque[float]") -> float:
    return sorted(seconds)[-2] if len(seconds) > 1 else 0.0
