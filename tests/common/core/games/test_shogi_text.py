"""SFEN and USI of shogi and minishogi: what is written is read again, and what is wrong is named."""


import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shogi_pair import random_set_up, turned

from shusaku.common._core import Game

GAMES = {"shogi": Game("shogi"), "minishogi": Game("minishogi")}
START = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
BARE = "4k4/9/9/9/9/9/9/9/4K4"


def test_the_starts():
    assert GAMES["shogi"].start().text == START
    assert GAMES["minishogi"].start().text == "rbsgk/4p/5/P4/KGSBR b - 1"


@pytest.mark.parametrize("name", GAMES)
def test_positions_come_back(name):
    random, game = np.random.default_rng(3), GAMES[name]
    size, read = game.observation_shape[1], 0
    for _ in range(3000):
        sfen = random_set_up(size, random)
        try:
            position = game.position(sfen)
        except ValueError:
            with pytest.raises(ValueError, match=f"the start of {name} is written"):
                game.position(sfen)
            continue
        read += 1
        assert position.text == sfen
        assert game.position(position.text).evaluation_key == position.evaluation_key
        assert turned(turned(sfen)) == sfen
    assert read > 200


@pytest.mark.parametrize("name", GAMES)
def test_a_game_that_goes_on_from_its_text_is_the_same(name):
    random, game = np.random.default_rng(4), GAMES[name]
    position = game.start()
    for _ in range(60):
        again = game.position(position.text)
        assert (again.ply, again.to_play, str(again)) == (position.ply, position.to_play, str(position))
        assert again.legal_actions == position.legal_actions
        if position.is_terminal:
            break
        position.play(int(random.choice(position.legal_actions)))


def test_what_may_be_left_out():
    game = GAMES["shogi"]
    assert game.position(START[:-2]).text == START
    assert game.position(f" {START.replace(' ', '  ')}\n").text == START
    assert game.position(BARE + " w p2PrB 7").text == BARE + " w B2Prp 7"  # in USI's order
    assert (game.position(BARE + " w - 7").ply, game.position(BARE + " w - 7").to_play) == (6, 1)


@pytest.mark.parametrize(("sfen", "reason"), [
    ("", "0 fields"),
    (START + " 1", "5 fields"),
    ("startpos", "1 fields"),
    (START.replace("/9/9/9/", "/9/9/"), "8 rows in"),
    (START.replace("/9/9/9/", "/9/9/8/"), "row 6, '8', has 8 squares: it must be 9"),
    (START.replace("/9/9/9/", "/9/9/9P/"), "row 6, '9P', has more than 9 squares"),
    (START.replace("/9/9/9/", "/9/9/54/"), "has two numbers in a row: write their sum"),
    (START.replace("/9/9/9/", "/9/9/0/"), "row 6, '0', has '0': pieces are PLNSGBRK"),
    (START.replace("/9/9/9/", "/9/9/4x4/"), "row 6, '4x4', has 'x': pieces are PLNSGBRK"),
    (START.replace("/9/9/9/", "/9/9/4+g4/"), r"'\+g': golds and kings do not promote"),
    (START.replace("/9/9/9/", "/9/9/4++p4/"), r"two \+ in a row"),
    (START.replace("/9/9/9/", "/9/9/4+5/"), r"a \+ before a number"),
    (START.replace("/9/9/9/", "/9/9/9+/"), r"ends with \+"),
    (START.replace(" b ", " x "), "the player to move is 'x': it is b"),
    (START.replace(" b ", " B "), "the player to move is 'B'"),
    (START.replace("- 1", "- 0"), "the number of the move, '0': must be 1 or more"),
    (START.replace("- 1", "- -1"), "the number of the move, '-1'"),
    (START.replace("- 1", "- 12345678"), "at most six digits"),
    (START.replace("- 1", "- 514"), "the number of the move, 514: max_plies=512 of game shogi"),
    (BARE + " b 0P 1", "have a number that is not 1 to 99"),
    (BARE + " b 100P 1", "have a number that is not 1 to 99"),
    (BARE + " b P3 1", "end with a number"),
    (BARE + " b PpP 1", "name 'P' twice"),
    (BARE + " b K 1", "have 'K': write those that can be dropped"),
    (BARE + " b +P 1", r"have '\+'"),
    (BARE + " b -P 1", "have '-'"),
    (BARE.replace("K", "G") + " b - 1", "the first player has 0 kings: each has one"),
    (BARE.replace("9/4K4", "4K4/4K4") + " b - 1", "the first player has 2 kings"),
    (BARE.replace("k", "g") + " b - 1", "the second player has 0 kings"),
    (START.replace("b - 1", "b P 1"), "19 pawns on the board and in the hands: there are 18"),
    (BARE + " b 3R 1", "3 rooks on the board"),
    (BARE.replace("/9/9/", "/+R3+r4/R8/", 1) + " b - 1", "3 rooks"),
    (BARE + " b 3B2b 1", "5 bishops"),
    (BARE.replace("/9/9/", "/2P6/2P6/", 1) + " b - 1", "the first player has two unpromoted pawns on file 7: one is"),
    (BARE.replace("/9/9/", "/2p6/2p6/", 1) + " b - 1", "the second player has two unpromoted pawns on file 7"),
    (BARE.replace("4k4", "P3k4") + " b - 1", "the first player has a piece that can never move again, 'P' at 9a: prom"),
    (BARE.replace("4k4", "4k3L") + " b - 1", "'L' at 1a"),
    (BARE.replace("4k4/9", "4k4/N8") + " b - 1", "'N' at 9b"),
    (BARE.replace("4K4", "4K3p") + " b - 1", "the second player has a piece that can never move again, 'P' at 1i"),
    (BARE.replace("9/4K4", "n8/4K4") + " b - 1", "'N' at 9h"),
    (BARE.replace("4k4", "R3k4") + " b - 1", "the second player's king stands in check at 5a, but the other player is"),
    (BARE.replace("4K4", "r3K4") + " w - 1", "the first player's king stands in check at 5i"),
    ("9/9/9/9/4k4/4K4/9/9/9 b - 1", "king stands in check at 5e"),
])
def test_what_is_no_position_is_refused_with_the_reason(sfen, reason):
    with pytest.raises(ValueError, match=reason):
        GAMES["shogi"].position(sfen)


@pytest.mark.parametrize(("sfen", "reason"), [
    (START, "9 rows in"),
    ("rbsgk/4p/5/P4/KGSBR b L 1", "have 'L'"),
    ("rnsgk/4p/5/P4/KGSBR b - 1", "has 'n': pieces are PSGBRK"),
    ("rbsgk/4p/5/P4/KGSBR b P 1", "3 pawns on the board and in the hands: there are 2"),
    ("rbsgk/4p/6/P4/KGSBR b - 1", "row 3, '6', has more than 5 squares"),
])
def test_minishogi_has_fewer_pieces_and_squares(sfen, reason):
    with pytest.raises(ValueError, match=reason):
        GAMES["minishogi"].position(sfen)


@pytest.mark.parametrize("move", ["", "7g", "7g7", "7g7f++", "7g7f=", "7G7F", "0g7f", "7g7j", "Pe5e", "p*5e", "K*5e",
                                  "X*5e", ".*5e", "P*5e+", "P*", "P*5", "7g6e1", "7g5d", "7g7g", "resign", "é5e"])
def test_what_is_no_move(move):
    with pytest.raises(ValueError, match="is no move of this game: legal are"):
        GAMES["shogi"].start().from_move(move)


@pytest.mark.parametrize("move", ["7g7e", "7g7f+", "P*5e", "5i5h+", "7c7d", "8h2b+", "2h2c"])
def test_an_illegal_move_is_refused_and_changes_nothing(move):
    position = GAMES["shogi"].start()
    with pytest.raises(ValueError, match=f"illegal move '{move}'".replace("+", r"\+").replace("*", r"\*")):
        position.from_move(move)
    assert position.text == START


PARTS = st.sampled_from([*"PLNSGBRKplnsgbrk123456789+/ -bw0", "9/", "/9/9", " b - 1", "4k4", "4K4", "+P"])


@given(st.text(max_size=60) | st.lists(PARTS, max_size=40).map("".join))
@settings(max_examples=1500, deadline=None)
def test_no_text_crashes_the_parser(text):
    for game in GAMES.values():
        try:
            position = game.position(text)
        except ValueError:
            continue
        assert game.position(position.text).text == position.text
        assert position.is_terminal == (not position.legal_actions)


@given(st.integers(0, 80), st.sampled_from([*"PLNSGBRKplnsgbrk19+/ -bw0", "", "++"]), st.booleans())
@settings(max_examples=1500, deadline=None)
def test_one_wrong_letter_crashes_nothing(at, letter, replaces):
    text = START[:at] + letter + START[at + replaces:]
    try:
        position = GAMES["shogi"].position(text)
    except ValueError:
        return
    assert GAMES["shogi"].position(position.text).evaluation_key == position.evaluation_key


@given(st.from_regex(r"[1-9][a-i][1-9][a-i]\+?|[A-Za-z+]\*[1-9][a-i]|.{0,6}", fullmatch=True))
@settings(max_examples=1000, deadline=None)
def test_no_text_crashes_the_reader_of_moves(text):
    for game in GAMES.values():
        position = game.start()
        known = {position.to_move(action) for action in position.legal_actions}
        if text in known:
            assert position.to_move(position.from_move(text)) == text
        else:
            with pytest.raises(ValueError, match=r"no move of this game|illegal move"):
                position.from_move(text)
