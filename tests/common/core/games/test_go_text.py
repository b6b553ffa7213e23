"""Go's texts: set-up in SGF and as a grid, vertices.  Whatever is written, only ValueError comes out."""

import random

import pytest
from go_pair import Pair, grid_of, random_board, sgf_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_go import action_of, board_of, diagram_of, vertex
from sgfmill import sgf

from shusaku.common._core import Game

SIZES = st.sampled_from([2, 3, 5, 9, 19])
PIECES = st.sampled_from([
    *"()[];:\\ \n", "SZ", "AB", "AW", "AE", "PL", "B", "W", "GM", "KM", "C", "HA", "aa", "bb", "ab", "ss", "tt",
    "aa:bb", "bb:aa", "[aa]", "[B]", "[W]", "SZ[5]", "AB[aa]", "AW[bb]", "PL[W]", "9", "-1", "é", "\0",
])
FAULTS = st.sampled_from(["(", ")", "[", "]", ";", ":", "", "z", "é", "\0"])
GRIDS = st.text(alphabet="XO./ \nxo#W", max_size=60)


def game_of(size):
    return Game("go", {"size": size, "komi": 0.5})


def accepted(game, text):
    """The position that the text sets up, or None; it must be one that can be played on."""
    try:
        position = game.position(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017
        return None
    assert not position.is_terminal
    assert position.legal_actions[-1] == game.num_actions - 1
    position.play(position.legal_actions[0])
    return position


@given(st.text(max_size=40), SIZES)
@settings(max_examples=100, deadline=None)
def test_any_text(text, size):
    accepted(game_of(size), text)


@given(GRIDS, st.sampled_from([2, 3]))
@settings(max_examples=100, deadline=None)
def test_any_grid(text, size):
    accepted(game_of(size), text)


@given(st.lists(PIECES, max_size=20), SIZES)
@settings(max_examples=100, deadline=None)
def test_any_mixture_of_sgf(pieces, size):
    for text in ("".join(pieces), "(;" + "".join(pieces) + ")", f"(;SZ[{size}]" + "".join(pieces)):
        accepted(game_of(size), text)


@given(st.integers(0, 10**6), SIZES, st.integers(0, 10**6), FAULTS)
@settings(max_examples=100, deadline=None)
def test_a_right_text_with_one_fault(seed, size, place, character):
    """One character replaced: refused, or a set-up of the same board size."""
    board = random_board(size, random.Random(seed))
    for text in (sgf_of(size, board, seed % 2), grid_of(size, board, seed % 2)):
        cut = place % len(text)
        accepted(game_of(size), text[:cut] + character + text[cut + 1:])


@given(st.integers(0, 10**6), SIZES)
@settings(max_examples=60, deadline=None)
def test_a_right_text_sets_up_its_board(seed, size):
    dice = random.Random(seed)
    board, to_play = random_board(size, dice), dice.randrange(2)
    texts = [sgf_of(size, board, to_play), grid_of(size, board, to_play),
             diagram_of(size, board) + "\n" + "XO"[to_play] + "\n", sgf_with_rectangles(size, board, to_play)]
    for text in texts:
        Pair(size, board, to_play, lambda *_, text=text: text, komi=0.5).check()


def sgf_with_rectangles(size, board, to_play):
    """Runs of stones in a row as rectangles, with white space and properties that say nothing about the board."""
    text = f" ( ;FF[4]GM[1]CA[UTF-8] AP[me:1]RU[Chinese] C[a \\] and a ;( here]\nSZ[{size}]"
    for name, colour in (("AB", 1), ("AW", 2)):
        runs = []
        for row in range(size):
            column = 0
            while column < size:
                end = column
                while end < size and board[row * size + end] == colour:
                    end += 1
                if end > column:
                    first, last = (chr(97 + c) + chr(97 + row) for c in (column, end - 1))
                    runs.append(f"[{first}:{last}]" if end > column + 1 else f"[{first}]")
                column = end + 1
        if runs:
            text += f"\n{name} " + "\n".join(runs)
    return text + f"PL[{'BW'[to_play]}] ) \n"


@pytest.mark.parametrize("size", [2, 9, 19])
def test_sgfmill_writes_what_is_read(size):
    """An SGF that another program wrote."""
    dice = random.Random(size)
    for _ in range(10):
        board = random_board(size, dice)
        record = sgf.Sgf_game(size=size)
        black, white = ({(size - 1 - p // size, p % size) for p, stone in enumerate(board) if stone == colour}
                        for colour in (1, 2))
        record.get_root().set_setup_stones(black, white)
        record.get_root().set("PL", "w")
        text = record.serialise().decode()
        Pair(size, board, 1, lambda *_, text=text: text, komi=0.5).check()


def test_a_rectangle_is_all_its_points():
    _, board = board_of("XXX.. XXX.. ..... ...OO ...OO")
    Pair(5, board, 1, lambda *_: "(;SZ[5]AB[aa:cb]AW[dd:ee]PL[W])", komi=0.5).check()


@pytest.mark.parametrize(("text", "reason"), [
    ("", "rows"),
    ("(;SZ[9]AB[aa])", "9"),
    ("(;SZ[5];B[aa])", "moves|first node"),
    ("(;SZ[5]AB[aa];B[bb];W[cc])", "moves|first node"),
    ("(;SZ[5]B[aa])", "moves"),
    ("(;SZ[5]AB[ff])", "'f'"),
    ("(;SZ[5]AB[a])", "'a'"),
    ("(;SZ[5]AB[aa:ff])", "'f'"),
    ("(;SZ[5]PL[X])", "'X'"),
    ("(;SZ[5]AB[aa", r"\]"),
    ("(;SZ[x])", "'x'"),
    ("(;SZ[5]AB[aa]AW[ab][ba])", "no liberty"),
    ("XO.../OX.../...../...../.....", "no liberty"),
    ("...../...../...../.....", "4 rows"),
    ("...../...../...../...../....# X", "'#'"),
    ("...../...../...../...../..... Z", "'Z'"),
    ("....../...../...../...../.....", "row 1"),
])
def test_a_wrong_set_up_is_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        game_of(5).position(text)


@pytest.mark.parametrize("text", [
    "(;SZ[5]AB[aa]AW[aa])", "(;SZ[5]AB[aa:cc]AW[ca])", "(;SZ[5]PL[B]PL[W])", "(;SZ[5]AB[aa])(;SZ[5])",
    "(;SZ[5]AB[aa])aa",
])
def test_a_set_up_that_contradicts_itself_is_refused(text):
    with pytest.raises(ValueError, match="set-up in SGF"):
        game_of(5).position(text)


@given(st.one_of(st.text(max_size=6), st.from_regex(r"[A-Za-z]{1,2}-?[0-9]{1,3}", fullmatch=True)), SIZES)
@settings(max_examples=100, deadline=None)
def test_any_move(text, size):
    """A vertex in either case; all else is refused, and the position is as it was."""
    game = game_of(size)
    position = game.start()
    position.play(0)
    before = (str(position), position.evaluation_key, position.legal_actions)
    known = {vertex(size, action).lower(): action for action in position.legal_actions}
    try:
        action = position.from_move(text)
    except ValueError as error:
        assert text not in {vertex(size, a) for a in known.values()}
        assert "no move of this game" in str(error) or "illegal move" in str(error)  # noqa: PT017
    else:
        assert known[text.lower()] == action
    assert (str(position), position.evaluation_key, position.legal_actions) == before


@given(st.integers(-(2**63), 2**63 - 1), SIZES)
@settings(max_examples=100, deadline=None)
def test_any_action(action, size):
    position = game_of(size).start()
    position.play(0)
    if action in position.legal_actions:
        return
    before = (str(position), position.evaluation_key, position.transposition_key, position.legal_actions)
    with pytest.raises(ValueError, match="illegal action"):
        position.play(action)
    assert (str(position), position.evaluation_key, position.transposition_key, position.legal_actions) == before


def test_a_refused_move_says_how_it_may_be_written():
    position = game_of(19).start()
    position.play(action_of(19, "D4"))
    for wrong, reason in (("D4", "illegal"), *((text, "no move") for text in ("I5", "T20", "A0", "D04", "", "resign"))):
        with pytest.raises(ValueError, match=reason) as refused:
            position.from_move(wrong)
        assert len(str(refused.value)) < 500
