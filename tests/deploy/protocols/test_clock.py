"""Clocks count as their rules say, and no plan reaches beyond what they show."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shusaku.common._core import Game
from shusaku.deploy.protocols.clock import (
    CUSHION,
    FEWEST_MOVES,
    LONGEST_WAY,
    REMEMBERED_MOVES,
    Clock,
    LagReserve,
    expected_moves,
    plan_move,
)

seconds = st.floats(0, 1e5)
clocks = st.one_of(
    st.builds(Clock.absolute, seconds),
    st.builds(Clock.fischer, seconds, seconds, st.integers(0, 60)),
    st.builds(Clock.canadian, seconds, st.floats(0.01, 1e4), st.integers(1, 40)),
    st.builds(Clock.byo_yomi, seconds, st.floats(0.01, 1e4), st.integers(1, 9)),
)
spent = st.lists(st.floats(0, 1e5), max_size=5)


@settings(max_examples=500, deadline=None)
@given(clocks, spent, st.floats(1, 300), st.floats(0, 10))
def test_no_plan_reaches_beyond_what_is_left(clock: Clock, moves: list[float], expected: float, reserve: float) -> None:
    for taken in moves:
        clock = clock.spend(taken)
    plan = plan_move(clock, expected, reserve)
    assert 0 <= plan.aim <= plan.limit <= max(0.0, clock.left - reserve) + 1e-9
    if clock.periods > 1 and plan.limit > 0:  # no period is lost, not even at the limit and with all of the reserve
        assert plan.limit + reserve <= clock.main_seconds + clock.left_in_period + 1e-6


@settings(max_examples=300, deadline=None)
@given(clocks, spent)
def test_no_clock_gains_time_but_its_increment(clock: Clock, moves: list[float]) -> None:
    for taken in moves:
        after = clock.spend(taken)
        if taken >= clock.left:
            assert after.left == 0
            return
        assert after.left + 1e-9 > 0
        assert after.left <= clock.left - taken + clock.increment_seconds + clock.period_seconds + 1e-6
        clock = after


@pytest.mark.parametrize("clock", [
    Clock.absolute(60), Clock.fischer(2, 0.02), Clock.fischer(60, 1), Clock.fischer(0.5, 0.2),
    Clock.canadian(10, 30, 25),
    Clock.canadian(0, 5, 1), Clock.byo_yomi(10, 1, 5), Clock.byo_yomi(0, 0.5), Clock.byo_yomi(600, 30, 3),
], ids=repr)
@pytest.mark.parametrize("asks_for_all", [False, True], ids=["aim", "limit"])
def test_a_player_who_keeps_to_the_plan_never_loses_on_time(clock: Clock, asks_for_all: bool) -> None:
    chance, reserve = random.Random(1), 0.1
    for move in range(400):
        plan = plan_move(clock, max(FEWEST_MOVES, 50 - move), reserve)
        wanted = plan.limit if asks_for_all else plan.aim
        # An answer at once costs a hundredth of the reserve; a search is late by up to all of it.
        late = reserve * chance.random() if wanted else 0.01 * reserve
        clock = clock.spend(wanted + late)
        assert clock.left > 0, f"lost at move {move}"


def test_the_moves_of_a_time_control_share_its_time_and_the_last_gets_the_rest() -> None:
    clock = Clock.fischer(100, 0, 40)
    assert plan_move(clock, 50, 0).aim == pytest.approx(2.5)
    assert plan_move(Clock.fischer(9, 0, 1), 50, 0.5).aim == pytest.approx(8.5)
    assert plan_move(Clock.fischer(9, 0, 40), 10, 0).aim == pytest.approx(0.9)


def test_byo_yomi_uses_its_period_and_canadian_its_share() -> None:
    assert plan_move(Clock.byo_yomi(0, 30, 3), 50, 1).aim == pytest.approx(29)
    assert plan_move(Clock.canadian(0, 300, 20), 50, 1).aim == pytest.approx(14)
    assert plan_move(Clock.byo_yomi(500, 30, 3), 50, 1).aim == pytest.approx(10 + 29)


def test_periods_and_moves_are_counted() -> None:
    japanese = Clock.byo_yomi(10, 5, 3).spend(8)
    assert (japanese.main_seconds, japanese.periods) == (2, 3)
    japanese = japanese.spend(6)  # 2 of the main time, 4 of a period, which begins anew
    assert (japanese.main_seconds, japanese.periods, japanese.left_in_period) == (0, 3, 5)
    assert japanese.spend(11).periods == 1
    assert japanese.spend(14.9).periods == 1
    assert japanese.spend(15).left == 0
    canadian = Clock.canadian(0, 10, 2).spend(4)
    assert (canadian.left_in_period, canadian.moves_in_period) == (6, 1)
    assert canadian.spend(5.9) == Clock.canadian(0, 10, 2)
    assert canadian.spend(6).left == 0
    fischer = Clock.fischer(10, 2, 2).spend(4)
    assert (fischer.main_seconds, fischer.moves_to_go) == (8, 1)


def test_time_left_of_gtp() -> None:
    canadian, japanese = Clock.canadian(60, 10, 5), Clock.byo_yomi(60, 10, 3)
    assert canadian.show_left(12, 0).main_seconds == 12
    assert (canadian.show_left(7, 2).left_in_period, canadian.show_left(7, 2).moves_in_period) == (7, 2)
    assert canadian.show_left(7, 2).main_seconds == 0
    assert (japanese.show_left(7, 2).left, japanese.show_left(7, 2).periods) == (17, 2)
    assert plan_move(canadian.show_left(-3, 0), 10, 0.1).aim == pytest.approx(10 / 5 - 0.1)
    assert plan_move(Clock.absolute(-3), 10, 0).limit == 0


def test_every_move_is_searched_while_there_is_time() -> None:
    blitz = Clock.fischer(2, 0.02)
    assert 0.01 < plan_move(blitz, 50, 0.15).aim < 0.1  # a fiftieth is less than the reserve
    assert plan_move(Clock.fischer(0.3, 0.02), 50, 0.15).limit == 0


def test_without_a_limit_there_is_no_plan() -> None:
    plan = plan_move(Clock().spend(1000), 10, 1)
    assert math.isinf(plan.aim)
    assert math.isinf(plan.limit)


@pytest.mark.parametrize("name", ["chess", "shogi", "minishogi", "go", "othello", "hex", "connect_four", "tic_tac_toe"])
def test_games_have_a_length(name: str) -> None:
    game = Game(name)
    first, late = expected_moves(game, 0), expected_moves(game, game.max_plies)
    assert late == FEWEST_MOVES <= first <= max(FEWEST_MOVES, game.max_plies / 2)


def test_the_reserve_learns_how_late_answers_come() -> None:
    lag = LagReserve(0.05)
    assert lag.seconds == 0.05
    lag.record(1.0, 3.0)  # one hiccup
    assert lag.seconds == 0.05
    lag.record(1.0, 1.2)
    assert lag.seconds == pytest.approx(0.25)
    for _ in range(REMEMBERED_MOVES):
        lag.record(1.0, 0.5)
    assert lag.seconds == 0.05


def test_the_way_to_the_arbiter_counts() -> None:
    lag = LagReserve(0.05)
    expected = Clock.fischer(10, 0.1)
    for shown in (9.8, 9.9, 9.9):
        lag.record_way(expected, Clock.fischer(shown, 0.1))
    assert lag.seconds == pytest.approx(0.15)
    for other in (Clock.fischer(11, 0.1), Clock.fischer(10 - LONGEST_WAY, 0.1), Clock.fischer(9.5, 0.2),
                  Clock.fischer(9.5, 0.1, 40), Clock.byo_yomi(9.5, 10)):
        for _ in range(3):
            lag.record_way(expected, other)  # another game, or another control
    assert lag.seconds == pytest.approx(0.15)


def test_a_cushion_is_kept_where_a_late_answer_loses() -> None:
    """A player whose answers are late by twice the reserve, now and then, lives on the increment for ever."""
    for left in (0.0, 0.1, CUSHION * 0.05):
        assert plan_move(Clock.fischer(left, 0.02), 10, 0.05).limit == 0
    assert plan_move(Clock.byo_yomi(0.1, 5), 10, 0.05).aim > 4
    assert plan_move(Clock.fischer(0.1, 0, 1), 10, 0.05).aim == pytest.approx(0.05)
    clock = Clock.fischer(2, 0.02)
    for move in range(600):
        late = 0.1 if move % 8 == 0 else 0.002
        clock = clock.spend(plan_move(clock, 10, 0.05).limit + late)
        assert clock.left > 0, move


@pytest.mark.parametrize("clock", [Clock(), Clock.absolute(600), Clock.canadian(600, 300, 10)])
def test_stones_are_of_canadian_overtime_if_no_byo_yomi_was_agreed_on(clock: Clock) -> None:
    shown = clock.show_left(300, 10)
    assert (shown.main_seconds, shown.left, shown.moves_in_period) == (0, 300, 10)
    after = shown.spend(20).show_left(280, 9)
    assert (after.left, after.moves_in_period) == (280, 9)
    assert Clock.byo_yomi(600, 30, 5).show_left(30, 3).left == 90
