"""The contract's checks: the core's games keep it, and each way to break it is found under the rule that it breaks."""


import numpy as np
import pytest
from external_fixtures import Board, Takeaway, TicTacToe, entry_of, python_game

from shusaku.common._core import Game, game_names
from shusaku.common.external.contract import RULES, check_game
from shusaku.common.external.loader import load_game

SMALL = {"go": {"size": 5}, "hex": {"size": 5}, "othello": {"size": 6}}


@pytest.mark.parametrize("name", game_names())
def test_the_cores_games_keep_the_contract(name):
    report = check_game(Game(name, SMALL.get(name, {})), 3)
    assert report.violations == {}
    assert (report.games, report.plies > 9) == (3, True)


@pytest.mark.parametrize("handicap", [2, 3, 4])
def test_go_with_a_handicap_keeps_it(handicap):
    assert check_game(Game("go", {"size": 7, "handicap": handicap}), 8).violations == {}


def check(cls, games=20):
    return check_game(python_game(cls), games, rules=load_game("python", {"entry": entry_of(cls)}).rules)


@pytest.mark.parametrize("cls", [TicTacToe, Takeaway])
def test_games_in_python_keep_it(cls):
    assert check(cls).violations == {}


class Mutable:
    """A board that play writes into."""

    def __init__(self, cells, ply):
        self.cells, self.ply = cells, ply


class Scribbler:
    """Fills a row of five; play changes the state that it is given and returns another one that shares it."""

    num_actions, max_plies, observation_shape = 5, 5, (1, 1, 5)

    def start(self):
        return Mutable([0] * 5, 0)

    def to_play(self, state):
        return state.ply % 2

    def is_terminal(self, state):
        return state.ply == 5

    def outcome(self, state):
        return 0

    def legal_actions(self, state):
        return [a for a in range(5) if not state.cells[a]] if state.ply < 5 else []

    def play(self, state, action):
        state.cells[action] = 1
        return Mutable(state.cells, state.ply + 1)

    def observation(self, state):
        return np.array(state.cells, np.float32).reshape(1, 1, 5)


class Dice(TicTacToe):
    random = np.random.default_rng(1)

    def play(self, state, action):
        after = super().play(state, action)
        return after if self.random.random() < 0.8 else Board(after.stones[::-1], after.ply, after.is_won)


BROKEN = {  # -> the rule that is broken, and words of the violation
    "moves": (type("Same", (TicTacToe,), {"to_move": lambda self, s, a: "x"}), "actions are called 'x'"),
    "states": (Scribbler, "play changed the state that it was given"),
    "replay": (Dice, "led to two different states"),
    "symmetries": (type("Skewed", (TicTacToe,), {
        "symmetries": lambda self: [(range(9), range(9)), (range(8, -1, -1), range(9))]}), "through symmetry 1"),
    "adapter": (type("Failing", (TicTacToe,), {"max_plies": 7}), "goes on after 7 plies, and its max_plies is 7"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_what_is_broken_is_found_with_the_moves_that_lead_there(rule):
    cls, words = BROKEN[rule]
    report = check(cls)
    assert not report.is_kept
    assert rule in report.violations
    assert words in report.violations[rule]
    assert "start" in report.violations[rule] or "after the actions" in report.violations[rule]


def test_a_parameter_of_that_name_excuses_no_game_of_a_user():
    class Given(TicTacToe):
        def __init__(self, handicap: int = 1) -> None:
            pass

        def start(self):
            return Board((1, 1), 2)

    report = check(Given)
    assert "through symmetry 1" in report.violations["symmetries"]


def test_a_move_that_is_read_as_another_is_found():
    class Crossed(TicTacToe):
        def from_move(self, state, text):
            return 8 - "abc".index(text[0])

    assert "is read as" in str(check(Crossed).violations) or "no move" in str(check(Crossed).violations)


def test_every_rule_has_its_line():
    assert all(text and "\n" not in text for text in RULES.values())
    assert set(BROKEN) <= set(RULES)
