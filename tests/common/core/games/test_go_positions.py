"""Positions that Go rules are known to get wrong, as diagrams: X black, O white, row 1 at the bottom."""

import itertools

import numpy as np
import pytest
from go_pair import RULES, SUPERKOS, Pair, grid_of
from reference_go import BLACK, EMPTY, WHITE, action_of, board_of, neighbours

from shusaku.common._core import Game

every_superko = pytest.mark.parametrize("superko", SUPERKOS)
every_rule = pytest.mark.parametrize(("rules", "superko"), list(itertools.product(RULES, SUPERKOS)))


def pair_of(diagram, to_play="X", **params):
    """Both games, set up from a diagram."""
    size, board = board_of(diagram)
    return Pair(size, board, "XO".index(to_play), **{"komi": 0.5, "max_plies": 100 if size < 10 else 0, **params})


def assert_legal(pair, *moves):
    legal = {pair.position.to_move(action) for action in pair.position.legal_actions}
    assert legal.issuperset(moves), (pair.params, set(moves) - legal)


def assert_illegal(pair, *moves):
    before = str(pair.position)
    for move in moves:
        with pytest.raises(ValueError, match=rf"illegal.*{move}|{move}.*illegal"):
            pair.position.from_move(move)
        with pytest.raises(ValueError, match="illegal action"):
            pair.position.play(action_of(pair.size, move))
    assert str(pair.position) == before


def assert_board(pair, diagram):
    """The board that the C++ game shows in its planes."""
    planes = pair.position.observation()
    own, theirs = planes[0].reshape(-1), planes[8].reshape(-1)
    black, white = (own, theirs) if pair.position.to_play == 0 else (theirs, own)
    size, board = board_of(diagram)
    assert size == pair.size
    assert bytes((black * BLACK + white * WHITE).astype(np.uint8)) == board


def is_over_by_rules(pair):
    return pair.position.is_terminal and not pair.position.is_cut_off


# ---- ko ------------------------------------------------------------------------------------------------------------

KO = """
    .XO..
    X.XO.
    .XO..
    .....
    ....."""


@every_rule
def test_a_ko_is_not_taken_back_at_once(rules, superko):
    pair = pair_of(KO, "O", rules=rules, superko=superko)
    pair.play("B4")  # takes C4
    assert_board(pair, """
        .XO..
        XO.O.
        .XO..
        .....
        .....""")
    assert_illegal(pair, "C4")
    pair.play("E1", "A1")  # a threat and its answer
    assert_legal(pair, "C4")
    pair.play("C4")
    assert_illegal(pair, "B4")


@every_rule
def test_a_pass_does_not_lift_a_ko_for_the_one_who_passes(rules, superko):
    """White takes, Black passes, White plays elsewhere: now Black may take back, the board is another one."""
    pair = pair_of(KO, "O", rules=rules, superko=superko).play("B4", "pass", "E1")
    assert_legal(pair, "C4")


TRIPLE_KO = """
    .XO......
    XO.O.....
    .XO......
    .XO......
    X.XO.....
    .XO......
    .XO......
    XO.O.....
    .XO......"""


@every_superko
def test_triple_ko(superko):
    """Six takings lead back to the first board, with the same player to move: only simple ko lets that be."""
    pair = pair_of(TRIPLE_KO, "X", superko=superko).play("C8", "B5", "C2", "B8", "C5")
    if superko != "simple":
        assert_illegal(pair, "B2")
        return
    pair.play("B2")
    assert_board(pair, TRIPLE_KO)
    pair.play("C8", "B5", "C2", "B8", "C5", "B2")  # and again, for ever
    assert_board(pair, TRIPLE_KO)


@every_superko
def test_five_plies_of_a_triple_ko_and_a_move_elsewhere(superko):
    """One stone more on the board, and no superko has anything against the last taking."""
    pair = pair_of(TRIPLE_KO, "X", superko=superko).play("C8", "B5", "C2", "B8", "J1", "J9", "C5")
    assert_legal(pair, "B2")


# ---- positional and situational, across passes -----------------------------------------------------------------------

SENDING_TWO = """
    .X.X.
    OOXX.
    .OOX.
    ..OX.
    ..OX."""


@every_superko
def test_sending_two_returning_one(superko):
    """X A5 makes two, O C5 takes both, X B5 takes one: the first board, but the other player to move."""
    pair = pair_of(SENDING_TWO, "X", superko=superko).play("A5", "C5")
    assert_board(pair, """
        ..OX.
        OOXX.
        .OOX.
        ..OX.
        ..OX.""")
    if superko == "positional":
        assert_illegal(pair, "B5")
        return
    pair.play("B5")
    assert_board(pair, SENDING_TWO)
    pair.play("pass")  # the first board, the first player: a pass is always legal
    if superko == "situational":
        assert_illegal(pair, "A5")  # leads to a board that White was to answer before
    else:
        pair.play("A5", "C5", "B5", "pass", "A5")


@every_superko
def test_sending_two_when_the_other_player_began(superko):
    """White passes first: the board had White to move at the start, so situational superko forbids it, too."""
    pair = pair_of(SENDING_TWO, "O", superko=superko).play("pass", "A5", "C5")
    if superko == "simple":
        assert_legal(pair, "B5")
    else:
        assert_illegal(pair, "B5")


@every_superko
def test_a_repetition_that_goes_through_a_pass(superko):
    """Set up one ply later, the returned board is new; White passes, and sending again repeats the board set up."""
    pair = pair_of(SENDING_TWO.replace(".X.X.", "XX.X."), "O", superko=superko).play("C5", "B5")
    assert_board(pair, SENDING_TWO)
    pair.play("pass")
    if superko == "simple":
        assert_legal(pair, "A5")
    else:
        assert_illegal(pair, "A5")


@every_superko
def test_who_was_to_move_after_a_pass_is_remembered(superko):
    """White passes: only after that did the board have Black to move.  Six takings return to both."""
    pair = pair_of(TRIPLE_KO, "O", superko=superko).play("pass", "C8", "B5", "C2", "B8", "C5")
    if superko == "simple":
        assert_legal(pair, "B2")
    else:
        assert_illegal(pair, "B2")


@every_superko
def test_a_ko_taken_back_into_the_board_of_a_pass(superko):
    pair = pair_of(KO, "X", superko=superko).play("pass", "B4")
    assert_illegal(pair, "C4")


# ---- suicide -------------------------------------------------------------------------------------------------------

CORNER = """
    X.O..
    OO...
    .....
    .....
    ....."""


@every_superko
def test_suicide_of_two_stones(superko):
    assert_illegal(pair_of(CORNER, "X", rules="chinese", superko=superko), "B5")
    pair = pair_of(CORNER, "X", rules="tromp_taylor", superko=superko).play("B5")
    assert_board(pair, CORNER.replace("X.O", "..O"))
    assert pair.position.to_play == 1
    assert_legal(pair, "A5", "B5")


@every_superko
def test_suicide_of_two_stones_that_repeats(superko):
    """Black comes back to A5, White passes, Black takes its own two off again: the board from before A5."""
    pair = pair_of(CORNER.replace("X.O", "..O"), "X", rules="tromp_taylor", superko=superko).play("A5", "pass")
    if superko == "positional":
        assert_illegal(pair, "B5")
        return
    assert_legal(pair, "B5")  # this time with White to move
    pair.play("B5", "pass")
    if superko == "situational":
        assert_illegal(pair, "A5")
    else:
        assert_legal(pair, "A5")


ONE_EYE = """
    .XO..
    XXO..
    OOO..
    .....
    ....."""


@every_superko
def test_suicide_of_a_group_in_its_last_eye(superko):
    """Black fills its only liberty; White, on the same point, takes three."""
    assert_illegal(pair_of(ONE_EYE, "X", rules="chinese", superko=superko), "A5")
    after = ONE_EYE.replace(".XO", "..O").replace("XXO", "..O")
    assert_board(pair_of(ONE_EYE, "X", rules="tromp_taylor", superko=superko).play("A5"), after)
    for rules in RULES:
        pair = pair_of(ONE_EYE, "O", rules=rules, superko=superko).play("A5")
        assert_board(pair, after.replace("..O..\n    ..O", "O.O..\n    ..O"))


LONE_EYE = """
    .X...
    XX...
    .....
    .....
    ....."""


@every_superko
def test_suicide_of_one_stone(superko):
    """It leaves the board as it is: never under positional superko, once under situational."""
    assert_illegal(pair_of(LONE_EYE, "O", rules="chinese", superko=superko), "A5")
    pair = pair_of(LONE_EYE, "O", rules="tromp_taylor", superko=superko)
    if superko == "positional":
        assert_illegal(pair, "A5")
        return
    pair.play("A5")
    assert_board(pair, LONE_EYE)
    assert pair.position.to_play == 0
    pair.play("pass")
    assert_illegal(pair, "A5")  # situational: seen with Black to move; simple: the board of two plies ago
    assert_legal(pair, "pass")


@every_superko
def test_a_play_that_takes_is_no_suicide(superko):
    """White's A5 has no liberty until it takes B5."""
    diagram = """
        .XO..
        XO...
        O....
        .....
        ....."""
    for rules in RULES:
        pair = pair_of(diagram, "O", rules=rules, superko=superko)
        pair.play("A5")  # takes B5 and A4, which had that liberty alone
        assert_board(pair, """
            O.O..
            .O...
            O....
            .....
            .....""")


# ---- captures ------------------------------------------------------------------------------------------------------

@every_rule
def test_snapback(rules, superko):
    """X A5 is taken by O B5, which leaves White's five stones one liberty: A5 again.  No ko forbids it."""
    diagram = """
        ..OX.
        OOOX.
        XXX..
        .....
        ....."""
    pair = pair_of(diagram, "X", rules=rules, superko=superko).play("A5", "B5")
    assert_board(pair, diagram.replace("..OX.", ".OOX."))
    pair.play("A5")
    assert_board(pair, """
        X..X.
        ...X.
        XXX..
        .....
        .....""")


@every_rule
def test_two_groups_taken_at_once(rules, superko):
    diagram = """
        O.OOX
        X.XX.
        .....
        .....
        ....."""
    pair = pair_of(diagram, "X", rules=rules, superko=superko).play("B5")
    assert_board(pair, diagram.replace("O.OOX", ".X..X"))


CROSS = """
    ..X..
    .XOX.
    XO.OX
    .XOX.
    ..X.."""


@every_superko
def test_four_groups_taken_at_once(superko):
    """And White on the same point joins four stones to five without a liberty."""
    empty = CROSS.replace("O", ".")
    pair = pair_of(CROSS, "X", superko=superko).play("C3")
    assert_board(pair, empty.replace("X...X", "X.X.X"))
    assert_illegal(pair_of(CROSS, "O", superko=superko), "C3")
    assert_board(pair_of(CROSS, "O", rules="tromp_taylor", superko=superko).play("C3"), empty)


@pytest.mark.parametrize("size", range(2, 20))
def test_a_stone_anywhere_is_taken_when_its_last_liberty_goes(size):
    """Edges and corners of every board; nothing is connected across the end of a row."""
    game, beside = Game("go", {"size": size, "komi": 0.5}), neighbours(size)
    for point in range(size * size):
        board = bytearray(size * size)
        board[point] = WHITE
        for n in beside[point][1:]:
            board[n] = BLACK
        position = game.position(grid_of(size, board, 0))
        position.play(beside[point][0])
        planes = position.observation()
        assert not planes[0].any(), point
        assert planes[8].sum() == len(beside[point])


@pytest.mark.parametrize("size", range(2, 20))
@pytest.mark.parametrize("superko", SUPERKOS)
def test_the_largest_group_dies(size, superko):
    """All points but one, taken by the other colour or by its own last stone: the longest chain there is."""
    corner, middle = 0, (size * size) // 2
    for hole in (corner, middle, size * size - 1):
        board = bytearray([WHITE]) * (size * size)
        board[hole] = EMPTY
        text = grid_of(size, board, 0)
        position = Game("go", {"size": size, "komi": 0.5, "superko": superko}).position(text)
        position.play(hole)
        planes = position.observation()
        assert (planes[0].sum(), planes[8].sum()) == (0, 1)
        assert sorted(position.legal_actions) == [a for a in range(size * size + 1) if a != hole]
        position = Game("go", {"size": size, "komi": 0.5, "superko": superko}).position(grid_of(size, board, 1))
        assert position.legal_actions == [size * size]  # suicide is forbidden, only the pass is left
        taylor = Game("go", {"size": size, "komi": 0.5, "superko": superko, "rules": "tromp_taylor"})
        position = taylor.position(grid_of(size, board, 1))
        position.play(hole)
        planes = position.observation()
        assert not planes[0].any()
        assert not planes[8].any()


# ---- score ---------------------------------------------------------------------------------------------------------

SEKI = """
    .OX.OX.
    .OX.OX.
    .OXXOX.
    .OOOXX.
    .OOOXX.
    .OOOXX.
    .OOOXX."""

EYE_AND_DAME = """
    .XO.O
    XXOOO
    X.X..
    XXXO.
    OOOO."""


@pytest.mark.parametrize(("diagram", "owners", "black_points"), [
    (SEKI, "OOX.OXX OOX.OXX OOXXOXX OOOOXXX OOOOXXX OOOOXXX OOOOXXX", 22 - 25),
    (EYE_AND_DAME, "XXOOO XXOOO XXX.. XXXO. OOOO.", 10 - 11),
    ("... ... ...", "... ... ...", 0),
    ("... .X. ...", "XXX XXX XXX", 9),
    (".X. XOX .O.", "XXX XOX .O.", 5 - 2),
])
@pytest.mark.parametrize("to_play", "XO")
def test_area_and_owners(diagram, owners, black_points, to_play):
    """Stones, and empty regions that reach one colour only, seki's eyes included; shared liberties are nobody's."""
    pair = pair_of(diagram, to_play, komi=0.5)
    sign = 1 if to_play == "X" else -1
    size, owner = board_of(owners)
    expected = [{EMPTY: 0, BLACK: sign, WHITE: -sign}[colour] for colour in owner]
    assert pair.position.ownership.dtype == np.int8
    assert pair.position.ownership.shape == (size, size)
    assert pair.position.ownership.reshape(-1).tolist() == expected
    pair.play("pass", "pass")
    assert is_over_by_rules(pair)
    assert pair.position.score == sign * (black_points - 0.5)
    assert pair.position.outcome == (1 if pair.position.score > 0 else -1)
    assert pair.position.ownership.reshape(-1).tolist() == expected


@pytest.mark.parametrize(("size", "black"), [(2, 4), (3, 9), (19, 361)])
def test_one_stone_owns_the_board(size, black):
    position = Game("go", {"size": size, "komi": 0.0}).start()
    for action in (0, size * size, size * size):
        position.play(action)
    assert position.score == -black  # White is to move
    assert (position.ownership == -1).all()
