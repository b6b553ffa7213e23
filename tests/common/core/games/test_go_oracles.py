"""Go against other people's programs: GNU Go and OpenSpiel on what is legal, sgfmill and GNU Go on area."""

import itertools
import random

import pytest
from go_against import against_gnu_go, against_openspiel, board_seen, next_action, what_differs
from go_engines import GnuGo, OpenSpielGo, fixed_handicap, sgfmill_board
from go_pair import SUPERKOS, grid_of, random_board
from reference_go import BLACK, diagram_of, neighbours

from shusaku.common._core import Game


@pytest.mark.parametrize(("size", "rules", "superko", "seeds", "plies"), [
    *((4, rules, superko, 4, 240) for rules, superko in itertools.product(("chinese", "tromp_taylor"), SUPERKOS)),
    *((9, "chinese", superko, 2, 240) for superko in SUPERKOS),
    (9, "tromp_taylor", "simple", 1, 240),
    (19, "chinese", "simple", 1, 280),
])
def test_gnu_go_finds_the_same_actions_legal(size, rules, superko, seeds, plies):
    counts = against_gnu_go(size, rules, superko, range(seeds), plies)
    assert counts["plies"] >= seeds * 60
    assert counts["forbidden"] >= 1, counts


@pytest.mark.parametrize(("size", "seeds", "plies"), [(5, 30, 240), (9, 8, 240), (19, 1, 600)])
def test_openspiel_finds_the_same_actions_legal(size, seeds, plies):
    counts = against_openspiel(size, range(seeds), plies)
    assert counts["plies"] >= seeds * 60
    if size == 5:
        assert counts["scored"] >= 1, counts
        assert counts["repeated"] >= 1, counts


def test_openspiel_ends_where_positional_superko_forbids():
    """Positional superko leaves OpenSpiel's list less the plays that end its game by a repetition."""
    game, other, forbidden = Game("go", {"size": 4, "komi": 0.5, "max_plies": 243}), OpenSpielGo(4, 0.5), 0
    for seed in range(24):
        dice, position, moves = random.Random(seed), game.start(), []
        other.clear()
        while not position.is_terminal and not other.is_over:
            ends = {a for a in other.legal_actions if a < 16 and other.ends_after(a)}
            ours, theirs = position.legal_actions, [a for a in other.legal_actions if a not in ends]
            assert ours == theirs, what_differs(position, ours, theirs, moves, 4, seed)
            forbidden += len(ends)
            action = next_action(dice, ours, board_seen(position, 4), 4, position.to_play + 1)
            position.play(action)
            other.play(action)
            moves.append(action)
    assert forbidden >= 20


@pytest.mark.parametrize("size", [2, 3, 5, 9, 13, 19])
def test_sgfmill_counts_the_same_area(size):
    """Random boards: black's area less white's."""
    game, dice = Game("go", {"size": size, "komi": 0.0}), random.Random(size)
    for _ in range(60):
        board, to_play = random_board(size, dice), dice.randrange(2)
        position = game.position(grid_of(size, board, to_play))
        position.play(size * size)
        position.play(size * size)
        black = position.score if to_play == 0 else -position.score
        assert black == sgfmill_board(size, board).area_score(), diagram_of(size, board)
        owned = int(position.ownership.sum())
        assert position.score == owned


@pytest.mark.parametrize("size", [4, 9])
def test_sgfmill_takes_the_same_stones_and_counts_the_same_end(size):
    """Random games played on both boards to the end."""
    game = Game("go", {"size": size, "komi": 0.0, "rules": "tromp_taylor", "superko": "simple", "max_plies": 243})
    for seed in range(6):
        dice, position, other = random.Random(seed), game.start(), sgfmill_board(size, bytes(size * size))
        while not position.is_terminal:
            legal, board = position.legal_actions, board_seen(position, size)
            action, colour = next_action(dice, legal, board, size, position.to_play + 1), "bw"[position.to_play]
            position.play(action)
            if action < size * size:
                other.play(size - 1 - action // size, action % size, colour)
            seen = board_seen(position, size)
            stones = [other.get(size - 1 - p // size, p % size) or "." for p in range(size * size)]
            assert seen == bytes(".bw".index(stone) for stone in stones), (seed, str(position))
        black = position.score if position.to_play == 0 else -position.score
        assert black == other.area_score()


def fills_own_eye(board, point, colour, beside):
    return all(board[n] == colour for n in beside[point])


def played_until_eyes_are_left(size, seed):
    """A random game in which nobody fills an own eye of one point, to two passes."""
    dice, beside = random.Random(seed), neighbours(size)
    position, moves = Game("go", {"size": size, "komi": 0.5, "max_plies": 243}).start(), []
    while not position.is_terminal:
        board = board_seen(position, size)
        plays = [a for a in position.legal_actions[:-1] if not fills_own_eye(board, a, position.to_play + 1, beside)]
        moves.append(dice.choice(plays) if plays else size * size)
        position.play(moves[-1])
    return position, moves


def test_gnu_go_counts_the_same_area_where_no_stone_is_dead():
    compared = 0
    with GnuGo(7, 0.5) as gnugo:
        for seed in range(12):
            position, moves = played_until_eyes_are_left(7, seed)
            if position.is_cut_off:
                continue
            gnugo.clear()
            for ply, action in enumerate(moves):
                gnugo.play(ply % 2, action)
            if gnugo.ask("final_status_list dead"):
                continue
            black = position.score if position.to_play == 0 else -position.score
            assert gnugo.score() == black, (seed, str(position))
            compared += 1
    assert compared >= 6


@pytest.mark.parametrize("size", [7, 9, 13, 19])
def test_gnu_go_puts_handicap_stones_on_the_same_points(size):
    for stones in range(2, 10 if size > 7 else 5):
        position = Game("go", {"size": size, "handicap": stones}).start()
        black = [point for point, stone in enumerate(board_seen(position, size)) if stone == BLACK]
        assert black == fixed_handicap(size, stones)
