"""What the scripts behind published figures compute, against the core or by hand."""

import json
import math

import numpy as np
import pytest
from labelled_games import random_game

from benchmarks.strength.score_share import margins
from benchmarks.tune.played_labels import lambda_returns
from shusaku.common._core import Game, RowRing


@pytest.mark.parametrize("value_lambda", [0.0, 0.8, 0.95])
@pytest.mark.parametrize("seed", range(5))
def test_lambda_returns_are_those_that_rows_are_learned_from(value_lambda: float, seed: int) -> None:
    game = random_game(Game("connect_four"), seed)
    ring = RowRing(Game("connect_four"), len(game), value_lambda=value_lambda)
    ring.append(game, math.nan)
    plies = np.flatnonzero(game.row_weight > 0)
    assert ring.end == len(plies)
    learned = [ring.sample(1, row, row + 1, 0, False, 1)["root_values"][0] for row in range(ring.end)]
    sign = 1 - 2 * (plies % 2)  # players alternate, and rows are for the one to move
    np.testing.assert_allclose(learned, lambda_returns(game, value_lambda)[plies] * sign, atol=1e-6)


def test_margins_are_those_of_the_first_player_in_games_that_were_counted() -> None:
    games = [
        {"score": 3.5, "first_moves_first": True, "ended_by": "rules"},
        {"score": 1.5, "first_moves_first": False, "ended_by": "rules"},
        {"score": -8.5, "first_moves_first": False, "ended_by": "ply_limit"},
        {"score": 40.0, "first_moves_first": True, "ended_by": "resignation"},
        {"score": None, "first_moves_first": True, "ended_by": "rules"},
    ]
    assert margins(map(json.dumps, games)) == ([3.5, 8.5], [1.5])
