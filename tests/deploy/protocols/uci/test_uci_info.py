"""Scores: monotone, symmetric, and consistent with the value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shusaku.actors.analysis.report import MoveReport, Report
from shusaku.common._core import Game
from shusaku.deploy.protocols.uci.info import InfoStyle, centipawns, info_lines, win_draw_loss

values = st.floats(-1, 1)


@given(values, values)
def test_centipawns_rise_with_the_value_and_turn_with_the_side(a: float, b: float) -> None:
    assert centipawns(-a) == -centipawns(a)
    if a <= b:
        assert centipawns(a) <= centipawns(b)


def test_a_pawn() -> None:
    assert centipawns(0) == 0
    assert centipawns(9 / 11) == 400  # ten wins to one loss are four pawns
    assert centipawns(1) == 2000


@given(values)
def test_wins_less_losses_are_the_value(value: float) -> None:
    win, draw, loss = win_draw_loss(value)
    assert win + draw + loss == 1000
    assert min(win, draw, loss) >= 0
    assert (win - loss) / 1000 == pytest.approx(value, abs=0.0011)


def report(game: str, text: str, variation: list[str], value: float) -> tuple[Report, list[str]]:
    position = Game(game).position(text)
    end, actions = position.copy(), []
    for move in variation:
        actions.append(end.from_move(move))
        end.play(actions[-1])
    move = MoveReport(actions[0], variation[0], 100, 0.5, value, value, tuple(actions))
    told = Report(120, 0.5, value, (move,), None, None, "")
    return told, info_lines(told, position, [move], InfoStyle(shows_wdl=True, mate_in_plies=game == "shogi"), 20)


@pytest.mark.parametrize(("game", "text", "variation", "value", "score"), [
    ("chess", "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", ["a1a8"], 1.0, "mate 1"),
    ("chess", "6k1/5ppp/8/8/8/8/8/R3K3 b - - 0 1", ["g8h8", "a1a8"], -1.0, "mate -1"),
    ("chess", "6k1/5ppp/8/8/8/8/8/R3K3 b - - 0 1", ["g8h8", "a1a8"], -0.5, "cp -191"),  # it is not forced
    ("chess", "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", ["e1e2"], 1.0, "cp 2000"),
    ("shogi", "4k4/9/4P4/9/9/9/9/9/4K4 b G 1", ["G*5b"], 1.0, "mate 1"),
])
def test_a_mate_is_told_if_the_variation_shows_it(
    game: str, text: str, variation: list[str], value: float, score: str
) -> None:
    assert f" score {score} " in report(game, text, variation, value)[1][0]


def test_a_line_says_what_it_counted() -> None:
    _, (line,) = report("chess", "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", ["e1e2", "g8f8"], 0.0)
    assert line == ("info depth 2 seldepth 2 multipv 1 score cp 0 wdl 250 500 250 nodes 120 nps 200 time 500 "
                    "pv e1e2 g8f8")
