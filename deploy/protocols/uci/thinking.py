"""One request for a move after the other, on one analysis: its limits, its clock, and pondering."""

import math
import time
from collections.abc import Callable

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.analysis.report import Limits, MoveReport, Report
from shusaku.common._core import Game, Position
from shusaku.deploy.protocols.clock import Clock, LagReserve, ThinkingTime, expected_moves, plan_move
from shusaku.deploy.protocols.uci.go import GoRequest

DEPTH_POLL_S = 0.02  # between two looks at how deep a search is
SIMULATIONS_A_PLY = 1000  # of a search for a depth, at most: a tree that has ended grows no deeper
LEAST_MOVE_SHARE = 0.25  # of a time for one move, whatever the reserve is
RIVAL_SHARE = 0.1  # of the best move's visits that a move needs to be a rival of it


class Thinking:
    """Searches for one `GoRequest` at a time, and knows when its answer is due."""

    def __init__(
        self, game: Game, analysis: Analysis, reserve: LagReserve, now: Callable[[], float] = time.monotonic
    ) -> None:
        """An analysis of this game; `now`: the clock that it measures with, in seconds."""
        self._game, self._analysis, self._reserve, self._now = game, analysis, reserve, now
        self._request = GoRequest()
        self._actions: tuple[int, ...] = ()
        self._expected = 1.0
        self._plan = ThinkingTime(math.inf, math.inf)
        self._left: Clock | None = None  # after the last answer, if its way took no time
        self._asked = 0.0  # when the request came
        self._began = 0.0  # when its clock began to run
        self._looked = 0.0
        self.is_active = False
        self.is_pondering = False
        self.kept = 0  # simulations that were there before
        self._runs = False
        self._has_run = False  # for this request
        self._is_extended = False

    @property
    def waits_for_client(self) -> bool:
        """Whether the search has ended, and its answer is due when the client says so."""
        return self.is_active and not self._runs and self.is_held

    @property
    def seconds(self) -> float:
        """Since the request came; a search that goes on after `ponderhit` or its plan does not begin anew."""
        return self._now() - self._asked

    @property
    def is_held(self) -> bool:
        """Whether the answer waits for `stop` or `ponderhit`, however long the search has ended."""
        return self.is_pondering or self._request.is_infinite

    def begin(self, position: Position, request: GoRequest, actions: tuple[int, ...], began: float) -> None:
        """Starts to search `position`, which is not terminal; `actions`: the only ones to search.

        `began`: when the request came.
        """
        analysis = self._analysis
        analysis.set_position(position)
        if self._left is not None and request.clock is not None:
            self._reserve.record_way(self._left, request.clock)
        self._request, self._actions, self._asked, self._began = request, actions, began, began
        self._expected = expected_moves(self._game, position.ply)
        self.is_active, self.is_pondering = True, request.is_ponder
        self._has_run = self._is_extended = False
        self.kept = analysis.report().simulations
        self._start()

    def ponder_hit(self, began: float) -> None:
        """The opponent has played the move that was expected: the clock runs from now on."""
        self.is_pondering, self._began = False, began
        if self._runs and not self._request.is_infinite and self._analysis.stop().ended == "stop":
            self._start()

    def is_due(self) -> bool:
        """Whether the answer has to be given now."""
        if not self.is_active:
            return False
        if self._runs and (self._analysis.wait(0) or self._is_deep()):
            self._runs = False
            self._extend()
        return not self._runs and not self.is_held

    def end(self) -> Report:
        """Ends the search if it runs; what it found."""
        report = self._analysis.stop()
        was_held = self.is_held  # so that our clock did not run: the opponent has played another move
        self.is_active = self.is_pondering = self._runs = False
        taken = self._now() - self._began
        if not self._has_run:
            self._reserve.record(0.0, taken)
        elif report.ended == "time":
            self._reserve.record(self._plan.limit if self._is_extended else self._plan.aim, taken)
        self._left = self._request.clock.spend(taken) if self._request.clock and not was_held else None
        return report

    def moves(self, report: Report) -> list[MoveReport]:
        """Those that may be played, best first: all that were searched; if none was, the one that looks best."""
        allowed = [move for move in report.moves if not self._actions or move.action in self._actions]
        return [move for move in allowed if move.visits] or allowed[:1]

    def _start(self) -> None:
        """Searches until the plan of the clock, or without one while it is held."""
        self._plan = ThinkingTime(math.inf, math.inf) if self.is_held else self._make_plan()
        self._run(self._plan.aim)

    def _make_plan(self) -> ThinkingTime:
        request, reserve = self._request, self._reserve.seconds
        plan = ThinkingTime(math.inf, math.inf)
        if request.clock is not None:
            plan = plan_move(request.clock, self._expected, reserve)
        if request.move_seconds is not None:
            most = max(LEAST_MOVE_SHARE * request.move_seconds, request.move_seconds - reserve)
            plan = ThinkingTime(min(plan.aim, most), min(plan.limit, most))
        return plan

    def _run(self, until: float) -> None:
        """Searches until so many seconds after the request came; not at all if they are over."""
        seconds = until - (self._now() - self._began)
        self._runs = seconds > 0
        self._has_run |= self._runs
        if self._runs:
            request = self._request
            most = [] if request.nodes is None else [request.nodes]
            most += [] if request.depth is None else [request.depth * SIMULATIONS_A_PLY]
            self._analysis.start(Limits(
                simulations=min(most, default=None),
                seconds=None if math.isinf(seconds) else seconds,
                actions=self._actions, to_the_end=request.clock is None,
            ))

    def _extend(self) -> None:
        """Searches on to the plan's limit, once, if the clock ended the search while a rival looked better."""
        report = self._analysis.report()
        if report.ended != "time" or self._is_extended or self._plan.limit <= self._plan.aim:
            return
        best, *others = self.moves(report)
        if any(move.value > best.value and move.visits >= RIVAL_SHARE * best.visits for move in others):
            self._is_extended = True
            self._run(self._plan.limit)

    def _is_deep(self) -> bool:
        """Whether the variation is as long as was asked for; then the search is ended."""
        now, depth = self._now(), self._request.depth
        if depth is None or now - self._looked < DEPTH_POLL_S:
            return False
        self._looked = now
        best = self.moves(self._analysis.report())[:1]
        if not best or len(best[0].variation) < depth:
            return False
        self._analysis.stop()
        return True
