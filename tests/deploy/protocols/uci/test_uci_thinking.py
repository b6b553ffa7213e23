"""When a search begins, goes on and ends, with a scripted analysis and a clock that the test sets."""

from typing import cast

import pytest

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.analysis.report import Limits, MoveReport, Report
from shusaku.common._core import Game, Position
from shusaku.deploy.protocols.clock import REMEMBERED_MOVES, Clock, LagReserve, expected_moves, plan_move
from shusaku.deploy.protocols.uci.go import GoRequest
from shusaku.deploy.protocols.uci.thinking import SIMULATIONS_A_PLY, Thinking

GAME = Game("chess")
E4, D4 = (GAME.start().from_move(move) for move in ("e2e4", "d2d4"))


class Scripted:
    """Ends its searches by the time that the test sets; the best move has the second best value if `is_unclear`."""

    def __init__(self) -> None:
        self.time = 100.0
        self.limits: list[Limits] = []
        self.ended = "stop"
        self.began = 0.0
        self.is_unclear = False
        self.depth = 1

    def now(self) -> float:
        return self.time

    def set_position(self, position: Position) -> None:
        assert self.ended

    def start(self, limits: Limits) -> None:
        assert self.ended
        self.limits.append(limits)
        self.ended, self.began = "", self.time

    def wait(self, seconds: float | None = None) -> bool:
        limit = self.limits[-1].seconds if self.limits else None
        if not self.ended and limit is not None and self.time - self.began >= limit - 1e-9:
            self.ended = "time"
        return bool(self.ended)

    def stop(self) -> Report:
        self.ended = self.ended or "stop"
        return self.report()

    def report(self) -> Report:
        best = MoveReport(E4, "e2e4", 60, 0.5, 0.1, 0.0, (E4,) * self.depth)
        rival = MoveReport(D4, "d2d4", 40, 0.5, 0.2 if self.is_unclear else 0.0, 0.0, (D4,))
        return Report(100, self.time - self.began, 0.1, (best, rival), None, None, self.ended)


@pytest.fixture
def analysis() -> Scripted:
    return Scripted()


def thinking_with(analysis: Scripted, request: GoRequest, lag: LagReserve | None = None) -> Thinking:
    thinking = Thinking(GAME, cast(Analysis, analysis), lag or LagReserve(0.1), analysis.now)
    thinking.begin(GAME.start(), request, (), analysis.time)
    return thinking


CLOCK = Clock.fischer(60, 1)
PLAN = plan_move(CLOCK, expected_moves(GAME, 0), 0.1)


def test_a_clock_is_kept(analysis: Scripted) -> None:
    thinking = thinking_with(analysis, GoRequest(clock=CLOCK))
    assert analysis.limits[-1].seconds == pytest.approx(PLAN.aim)
    assert not analysis.limits[-1].to_the_end
    assert not thinking.is_due()
    analysis.time += PLAN.aim
    assert thinking.is_due()
    assert thinking.end().ended == "time"
    assert not thinking.is_active


def test_an_unclear_search_goes_on_once_to_the_limit(analysis: Scripted) -> None:
    analysis.is_unclear = True
    thinking = thinking_with(analysis, GoRequest(clock=CLOCK))
    analysis.time += PLAN.aim
    assert not thinking.is_due()
    assert analysis.limits[-1].seconds == pytest.approx(PLAN.limit - PLAN.aim)
    analysis.time += PLAN.limit - PLAN.aim
    assert thinking.is_due()


def test_pondering_costs_no_time(analysis: Scripted) -> None:
    thinking = thinking_with(analysis, GoRequest(clock=CLOCK, is_ponder=True))
    assert analysis.limits[-1].seconds is None
    analysis.time += 1000
    assert not thinking.is_due()
    thinking.ponder_hit(analysis.time)
    assert analysis.limits[-1].seconds == pytest.approx(PLAN.aim)
    analysis.time += PLAN.aim
    assert thinking.is_due()


def test_a_move_that_was_not_expected_says_nothing_of_the_way(analysis: Scripted) -> None:
    """Our clock has not run while we pondered, so that its increment was none of ours."""
    thinking = thinking_with(analysis, GoRequest(clock=CLOCK, is_ponder=True))
    before = thinking._reserve.seconds
    for _ in range(3):
        analysis.time += 0.2
        thinking.end()
        thinking.begin(GAME.start(), GoRequest(clock=CLOCK, is_ponder=True), (), analysis.time)
    thinking.end()
    thinking.begin(GAME.start(), GoRequest(clock=CLOCK), (), analysis.time)
    assert thinking._reserve.seconds == before


def test_a_search_that_ended_while_it_pondered_is_answered_at_the_hit(analysis: Scripted) -> None:
    thinking = thinking_with(analysis, GoRequest(clock=CLOCK, is_ponder=True))
    analysis.ended = "proven"
    assert not thinking.is_due()
    assert thinking.waits_for_client
    thinking.ponder_hit(analysis.time)
    assert thinking.is_due()
    assert len(analysis.limits) == 1


def test_without_time_nothing_is_searched(analysis: Scripted) -> None:
    thinking = thinking_with(analysis, GoRequest(clock=Clock.absolute(0.05)))
    assert thinking.is_due()
    assert not analysis.limits
    assert thinking.moves(thinking.end())[0].action == E4


def test_late_answers_make_the_next_plans_shorter_and_are_forgotten(analysis: Scripted) -> None:
    lag = LagReserve(0.1)
    for _ in range(2):
        thinking = thinking_with(analysis, GoRequest(clock=CLOCK), lag)
        analysis.time += PLAN.aim + 0.5
        assert thinking.is_due()
        thinking.end()
    assert lag.seconds > 0.5
    for _ in range(REMEMBERED_MOVES):
        thinking_with(analysis, GoRequest(clock=Clock.absolute(0)), lag).end()
    assert lag.seconds == 0.1


def test_a_depth_ends_a_search_and_bounds_it(analysis: Scripted) -> None:
    thinking = thinking_with(analysis, GoRequest(depth=3))
    assert analysis.limits[-1] == Limits(simulations=3 * SIMULATIONS_A_PLY, to_the_end=True)
    analysis.time += 1
    assert not thinking.is_due()
    analysis.depth = 3
    analysis.time += 1
    assert thinking.is_due()
    assert thinking.end().ended == "stop"


def test_an_infinite_search_is_held_after_its_end(analysis: Scripted) -> None:
    thinking = thinking_with(analysis, GoRequest(is_infinite=True, clock=CLOCK))
    assert analysis.limits[-1].seconds is None
    analysis.ended = "memory"
    assert not thinking.is_due()
    assert thinking.waits_for_client


def test_root_moves_bound_the_answer(analysis: Scripted) -> None:
    thinking = Thinking(GAME, cast(Analysis, analysis), LagReserve(0), analysis.now)
    thinking.begin(GAME.start(), GoRequest(nodes=5), (D4,), analysis.time)
    assert analysis.limits[-1].actions == (D4,)
    assert [move.action for move in thinking.moves(analysis.report())] == [D4]
