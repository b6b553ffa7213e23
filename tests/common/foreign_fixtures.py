"""Small games in Python for the tests, reachable as game.entry=test_games_of_ours:Name."""

import sys
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from search_fixtures import played_games

from shusaku.actors.evaluators.evaluator import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.config.schema import SearchConfig, SelfPlayConfig
from shusaku.common.external.entry import trust

MODULE = "test_games_of_ours"
LINES = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124]


def entry_of(cls: type) -> str:
    """The class under a name that game.entry= finds."""
    module = sys.modules.setdefault(MODULE, ModuleType(MODULE))
    setattr(module, cls.__name__, cls)
    entry = f"{MODULE}:{cls.__name__}"
    trust(entry)
    return entry


def python_game(cls: type, **params: Any) -> Game:
    return Game("python", {"entry": entry_of(cls), **params})


class Board(NamedTuple):
    stones: tuple[int, int] = (0, 0)  # bits of X and of O
    ply: int = 0
    is_won: bool = False


class TicTacToe:
    """The core's tic-tac-toe once more: the same actions, the same planes, the same views."""

    num_actions, max_plies, observation_shape, uniform_planes = 9, 9, (3, 3, 3), 1

    def start(self):
        return Board()

    def to_play(self, state):
        return state.ply % 2

    def is_terminal(self, state):
        return state.is_won or state.ply == 9

    def outcome(self, state):
        return -1 if state.is_won else 0

    def legal_actions(self, state):
        taken = state.stones[0] | state.stones[1]
        return [] if self.is_terminal(state) else [cell for cell in range(9) if not taken >> cell & 1]

    def play(self, state, action):
        stones = list(state.stones)
        stones[state.ply % 2] |= 1 << action
        mine = stones[state.ply % 2]
        return Board((stones[0], stones[1]), state.ply + 1, any(mine & line == line for line in LINES))

    def observation(self, state):
        planes = np.zeros((3, 9), np.float32)
        for player in (0, 1):
            planes[player] = [state.stones[player] >> cell & 1 for cell in range(9)]
        planes[2] = state.ply % 2
        return planes.reshape(3, 3, 3)

    def symmetries(self):
        views = []
        for symmetry in range(8):
            view = []
            for cell in range(9):
                row, column = divmod(cell, 3)
                column = 2 - column if symmetry & 1 else column
                row = 2 - row if symmetry & 2 else row
                view.append(column * 3 + row if symmetry & 4 else row * 3 + column)
            views.append(view)
        return views

    def to_move(self, state, action):
        return "abc"[action % 3] + "321"[action // 3]

    def draw(self, state):
        signs = ["X" if state.stones[0] >> c & 1 else "O" if state.stones[1] >> c & 1 else "." for c in range(9)]
        return "".join(" ".join(signs[row:row + 3]) + " \n" for row in (0, 3, 6)).replace(" \n", "\n")

    def parse(self, text):
        cells = text.replace("/", "")
        if len(cells) != 9 or set(cells) - set("XO."):
            raise ValueError(f"'{text}' is no board of nine X, O and .")
        stones = [sum(1 << c for c in range(9) if cells[c] == sign) for sign in "XO"]
        return Board((stones[0], stones[1]), 9 - cells.count("."), False)


class Pile(NamedTuple):
    left: int
    player: int
    again: bool  # the player to move has just taken one and may go on


class Takeaway:
    """Take one or three from a pile; who takes one moves once more.  Who takes the last one wins.

    Players do not alternate: after the first `one` of a turn the same player is to move.
    """

    max_plies, observation_shape = 64, (40, 1, 1)
    num_actions = 3  # of which 1 is "one", 2 is "three" and 0 never is legal

    def __init__(self, pile: int = 9) -> None:
        self.pile = pile

    def start(self):
        return Pile(self.pile, 0, False)

    def to_play(self, state):
        return state.player

    def is_terminal(self, state):
        return state.left == 0

    def legal_actions(self, state):
        return [action for action, taken in ((1, 1), (2, 3)) if taken <= state.left]

    def play(self, state, action):
        left = state.left - (1 if action == 1 else 3)
        stays = action == 1 and not state.again and left > 0
        return Pile(left, state.player if stays else 1 - state.player, stays)

    def outcome(self, state):
        return -1  # the other one has taken the last

    def observation(self, state):
        planes = np.zeros((40, 1, 1), np.uint8)
        planes[state.left] = 1
        planes[38], planes[39] = state.again, state.player
        return planes


def solve(rules: Any, state: Any) -> int:
    """The value for the player to move, by brute force."""
    if rules.is_terminal(state):
        return int(rules.outcome(state))
    best = -1
    for action in rules.legal_actions(state):
        after = rules.play(state, action)
        value = solve(rules, after)
        best = max(best, value if rules.to_play(after) == rules.to_play(state) else -value)
    return best


def records(game, policy, count, symmetries=False, **changes):
    """The columns of `count` games of self-play, evaluated by a hash of the planes."""
    config = SearchConfig(policy=policy, simulations=24, cache=0, noise=policy == "puct", **changes)
    evaluate, self_play = PseudoRandomEvaluator(game, 6), SelfPlayConfig(random_plies=2)
    return played_games(game, config, self_play, evaluate, count, symmetries=symmetries, size=6, seed=7)[0]
