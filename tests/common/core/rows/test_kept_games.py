"""A ring that keeps moves hands out the rows of one that keeps planes, bit for bit."""

import numpy as np
import pytest
from external_fixtures import Takeaway, python_game
from golden_games import play
from labelled_games import random_game

from shusaku.common._core import Game, RowRing

GAMES = {
    "tic_tac_toe": lambda: Game("tic_tac_toe"), "connect_four": lambda: Game("connect_four"),
    "othello": lambda: Game("othello"), "go 9x9": lambda: Game("go", {"size": 9}), "chess": lambda: Game("chess"),
    "minishogi": lambda: Game("minishogi"), "moves twice": lambda: python_game(Takeaway, pile=20),
}


def rings(game, capacity, **labels):
    return [RowRing(game, capacity, **labels, keeps_moves=keeps) for keeps in (False, True)]


def assert_same_rows(planes, moves, count, seed, threads=1):
    begin, end = max(0, planes.end - CAPACITY), planes.end
    one, two = (ring.sample(count, begin, end, seed, True, threads) for ring in (planes, moves))
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].tobytes() == two[name].tobytes(), name
    return one


CAPACITY = 150


@pytest.mark.parametrize("name", GAMES)
def test_the_rows_are_the_same_with_every_label_and_after_games_have_left(name):
    game = GAMES[name]()
    owned = name in ("othello", "go 9x9")
    planes, moves = rings(game, CAPACITY, horizons=(2.0, 9.0), blunder_gap=0.3, blunder_width=0.4, ownership=owned,
                          score=owned, reply=True, policy_surprise=0.4, value_surprise=0.1)
    seen = set()
    for seed in range(14):
        record = random_game(game, seed, stop_early=seed % 4 == 3)
        assert planes.append(record) == moves.append(record)
        assert planes.end == moves.end
        if planes.end:
            seen |= set(assert_same_rows(planes, moves, 200, seed, threads=1 + seed % 3)["rows"].tolist())
    assert planes.end > CAPACITY or name in ("tic_tac_toe", "moves twice")
    assert min(seen) < CAPACITY / 2 or name in ("chess", "go 9x9")


@pytest.mark.parametrize("name", ["go_9x9", "connect_four", "moves_twice"])
def test_a_game_has_its_komi_and_rows_without_weight_are_left_out(name):
    """Openings, cheap searches, resignation, and in Go a komi of each game's own, which its planes show."""
    params = {"size": 9, "komi": 7.0, "planes": "komi"}
    game = {"go_9x9": lambda: Game("go", params), "connect_four": lambda: Game("connect_four"),
            "moves_twice": lambda: python_game(Takeaway, pile=20)}[name]()
    planes, moves = rings(game, CAPACITY, reply=True)
    komis = set()
    for record in play(name, 8 if name == "go_9x9" else 30):
        komi = float(record.params.get("komi", np.nan))
        komis.add(komi)
        assert planes.append(record, komi) == moves.append(record, komi) < len(record.actions) + 1
    assert len(komis) > 2 or name != "go_9x9"
    assert_same_rows(planes, moves, 500, 1)


def test_a_refused_game_leaves_nothing_behind():
    game = Game("connect_four")
    planes, moves = rings(game, CAPACITY)
    for seed in range(3):
        record = random_game(game, seed)
        for ring in (planes, moves):
            ring.append(record)
    broken = random_game(game, 9)
    broken.actions[-1] = 6 if broken.actions[-1] != 6 else 5
    size = moves.nbytes
    for ring in (planes, moves):
        with pytest.raises(ValueError, match=r"action|outcome|policy"):
            ring.append(broken)
    assert moves.nbytes == size
    assert_same_rows(planes, moves, 300, 4)


def test_moves_take_a_fraction_of_the_memory_and_give_back_what_leaves():
    game = Game("chess")
    planes, moves = rings(game, CAPACITY)
    records = [random_game(game, seed) for seed in range(6)]
    sizes = []
    for turn in range(30):
        moves.append(records[turn % 6])
        sizes.append(moves.nbytes)
    planes.append(records[0])
    assert max(sizes[12:]) <= 1.6 * min(sizes[6:])  # games come and go
    assert max(sizes) < planes.nbytes / 3
