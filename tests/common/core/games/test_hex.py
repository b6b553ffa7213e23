"""Hex against OpenSpiel and a slow flood fill, and the shapes where neighbours are got wrong."""

from functools import cache

import numpy as np
import pyspiel
import pytest

from shusaku.common._core import Game, perft

SIZES = range(2, 14)
NEIGHBOURS = [(0, -1), (0, 1), (-1, 0), (-1, 1), (1, -1), (1, 0)]  # of (row, column)


def is_connected(stones, size, player):
    """Whether cells of `stones` lead from the top to the bottom (player 0) or from the left to the right (1)."""
    reached = {cell for cell in stones if cell[player] == 0}
    open_cells = list(reached)
    while open_cells:
        row, column = open_cells.pop()
        for down, right in NEIGHBOURS:
            cell = (row + down, column + right)
            if cell in stones and cell not in reached:
                reached.add(cell)
                open_cells.append(cell)
    return any(cell[player] == size - 1 for cell in reached)


def hex_of(size):
    return Game("hex", {"size": size})


def grid_text(stones, size, turn):
    symbols = {cell: symbol for symbol, cells in zip("XO", stones, strict=True) for cell in cells}
    rows = ("".join(symbols.get((row, column), ".") for column in range(size)) for row in range(size))
    return "/".join(rows) + (f" {turn}" if turn else "")


def play_against_reference(size, seed):
    """Legal moves, planes and the end at every ply of one random game; then the same position set up."""
    random = np.random.default_rng(seed)
    game, stones = hex_of(size), (set(), set())
    position = game.start()
    for ply, action in enumerate(random.permutation(size**2)):
        me = ply % 2
        taken = stones[0] | stones[1]
        assert position.legal_actions == [a for a in range(size**2) if divmod(a, size) not in taken]
        planes = np.zeros((3, size, size), np.float32)
        for plane, player in ((0, me), (1, 1 - me)):
            for cell in stones[player]:
                planes[(plane, *cell)] = 1
        planes[2] = me
        np.testing.assert_array_equal(position.observation(), planes)
        cell = divmod(int(action), size)
        assert position.to_move(action) == "abcdefghijklm"[cell[1]] + str(cell[0] + 1)
        position.play(action)
        stones[me].add(cell)
        set_up = game.position(grid_text(stones, size, "OX"[me]))
        assert str(set_up) == str(position)
        assert set_up.evaluation_key == position.evaluation_key
        assert set_up.is_terminal == position.is_terminal == is_connected(stones[me], size, me), f"seed {seed}"
        if position.is_terminal:
            assert (position.to_play, position.outcome, position.legal_actions) == (1 - me, -1, [])
            assert np.isnan(position.score)
            return
    pytest.fail(f"size {size}, seed {seed}: a full board without a winner")


def play_against_openspiel(size, seed):
    random = np.random.default_rng(seed)
    position, other = hex_of(size).start(), pyspiel.load_game(f"hex(board_size={size})").new_initial_state()
    while not other.is_terminal():
        assert position.to_play == other.current_player()
        assert position.legal_actions == other.legal_actions(), f"seed {seed}, in\n{position}"
        action = int(random.choice(other.legal_actions()))
        assert position.to_move(action) == other.action_to_string(action)
        position.play(action)
        other.apply_action(action)
    assert position.is_terminal, f"seed {seed}, in\n{position}"
    assert position.outcome == other.returns()[position.to_play] == -1
    drawn = "".join(c for c in str(position).rsplit("\n", 2)[0] if c in "●○·")
    assert drawn == "".join(c for c in str(other) if c in "xo.").translate(str.maketrans("xo.", "●○·"))
    return position.ply


@pytest.mark.parametrize("size", SIZES)
def test_random_games_against_the_reference(size):
    for seed in range(15):
        play_against_reference(size, seed)


@pytest.mark.parametrize("size", [3, 5, 8, 9, 11, 12, 13])
def test_random_games_against_openspiel(size):
    assert sum(play_against_openspiel(size, seed) for seed in range(25)) > 25 * size


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
def test_many_random_games_against_both(size):
    for seed in range(1000, 1300):
        play_against_reference(size, seed)
        play_against_openspiel(size, seed)


@cache
def count(size, first, second, depth):
    """Sequences of `depth` plies from here, by the reference; `first` and `second` are the stones of each player."""
    stones = (first, second)
    me = len(first) - len(second)
    if depth == 0:
        return 1
    if is_connected(stones[1 - me], size, 1 - me):
        return 0
    cells = [divmod(cell, size) for cell in range(size**2)]
    empty = [cell for cell in cells if cell not in first and cell not in second]
    return sum(count(size, first | {c}, second, depth - 1) if me == 0 else count(size, first, second | {c}, depth - 1)
               for c in empty)


@pytest.mark.parametrize(("size", "deepest"), [(2, 4), (3, 9), (4, 4)])
def test_counts_of_the_reference(size, deepest):
    start = hex_of(size).start()
    counts = [count(size, frozenset(), frozenset(), depth) for depth in range(deepest + 1)]
    assert [perft(start, depth) for depth in range(deepest + 1)] == counts
    if size == 3:
        assert counts[9] > 0  # the last cell can decide; perft(10) is 0
        assert perft(start, 10) == 0


@pytest.mark.parametrize("size", SIZES)
def test_a_chain_wins_across_and_not_along(size):
    game = hex_of(size)
    column = [f"b{row + 1}" for row in range(size)]
    row = [f"{letter}1" for letter in "abcdefghijklm"[:size]]
    for player in (0, 1):
        position = game.start()
        if player == 1:
            position.play(position.from_move(f"a{size}"))
        mine, others = (column, [m for m in row if m not in column]) if player == 0 else (row, column[1:])
        for k, move in enumerate(mine):
            position.play(position.from_move(move))
            if k + 1 < size:
                position.play(position.from_move(others[k]))
        assert position.is_terminal
        assert position.to_play == 1 - player


@pytest.mark.parametrize(("text", "is_over"), [
    (".XO/.XO/.X.", True),  # straight down
    (".XO/XO./X..", True),  # down and to the left
    ("X.O/.XO/..X", False),  # down and to the right: no neighbours
    ("X.O/XO./.X.", False),
    ("..X/OOO/XX.", True),  # a row
    ("..O/OO./XXX", True),  # along a row and up to the right; X lies along its edge, not across
    ("O.X/XO./X.O", False),
])
def test_who_hangs_together(text, is_over):
    assert hex_of(3).position(text).is_terminal == is_over


def test_no_full_board_is_drawn():
    """Whatever stands on a full board, exactly one of the two is connected."""
    random = np.random.default_rng(4)
    for size in (4, 6, 9, 11, 13):
        for _ in range(30):
            cells = [divmod(int(c), size) for c in random.permutation(size**2)]
            stones = (set(cells[0::2]), set(cells[1::2]))
            winner = [player for player in (0, 1) if is_connected(stones[player], size, player)]
            assert len(winner) == 1
            last = (size**2 - 1) % 2
            if winner[0] == last:
                position = hex_of(size).position(grid_text(stones, size, ""))
                assert position.is_terminal
                assert position.outcome == -1
            else:
                with pytest.raises(ValueError, match="over before"):
                    hex_of(size).position(grid_text(stones, size, ""))


def test_drawing():
    assert str(hex_of(3).position("XO./.../X..")) == "   a b c\n 1 ● ○ ·\n  2 · · ·\n   3 ● · ·\n○ to move\n"
    assert str(hex_of(2).position("XO/X.")) == "   a b\n 1 ● ○\n  2 ● ·\n● has won\n"
    lines = str(hex_of(11).start()).splitlines()
    assert lines[1].startswith(" 1 ·")
    assert lines[10] == " " * 9 + "10" + " ·" * 11


@pytest.mark.parametrize(("text", "reason"), [
    ("X../...", "2 rows"),
    ("XX./.../...", "2 X and 0 O: X moves first"),
    ("O../.../...", "0 X and 1 O"),
    ("X../.../... X", "the turn of O by the number of stones"),
    ("X../X../X.O O", "3 X and 1 O"),
    ("XO./XO./X.O", "over before"),
    ("X../.../... ●", "behind the last row|cells"),
])
def test_an_impossible_position_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        hex_of(3).position(text)


@pytest.mark.parametrize("text", ["a0", "a12", "l1", "a", "11", "A1", "a01", "a1 ", "a1x", "a111", "a-1", "", "pass"])
def test_what_is_no_move(text):
    with pytest.raises(ValueError, match="is no move of this game: legal are a1 b1"):
        Game("hex").start().from_move(text)


@pytest.mark.parametrize("size", [-3, 0, 1, 14, 2**40])
def test_another_size_is_refused(size):
    with pytest.raises(ValueError, match=rf"size {size}: hex is played on 2 x 2 to 13 x 13 .* 2 to 13"):
        Game("hex", {"size": size})
