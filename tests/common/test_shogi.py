"""Shogi's and minishogi's rules where they are got wrong: positions with known answers, and published counts."""

import sys
from pathlib import Path

import pytest

from common._core import Game, perft, random_games

sys.path.insert(0, str(Path(__file__).parent))
from shogi_pair import turned

START = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
GAME = Game("shogi")
MINI = Game("minishogi")


def after(sfen, *moves, game=GAME):
    position = game.position(sfen)
    for move in moves:
        position.play(position.from_move(move))
    return position


def moves(position):
    return {position.to_move(action) for action in position.legal_actions}


def both(sfen):
    """The position, and the same one with the colours exchanged; moves are the first one's."""
    def as_first(move):
        square = "".join(str(10 - int(c)) if c.isdecimal() else chr(ord("a") + ord("i") - ord(c)) for c in move[-2:])
        start = move[:2] if move[1] == "*" else "".join(
            str(10 - int(c)) if c.isdecimal() else chr(ord("a") + ord("i") - ord(c)) for c in move[:2])
        return start + square

    yield moves(GAME.position(sfen))
    yield {as_first(move.rstrip("+")) + "+" * move.endswith("+") for move in moves(GAME.position(turned(sfen)))}


@pytest.mark.parametrize(("game", "counts"), [
    (GAME, [1, 30, 900, 25470, 719731, 19861490]),  # as OpenSpiel, cshogi, Fairy-Stockfish
    (MINI, [1, 14, 181, 2512, 35401, 533203, 8276188]),
], ids=["shogi", "minishogi"])
def test_published_counts(game, counts):
    assert [perft(game.start(), depth) for depth in range(len(counts))] == counts


@pytest.mark.parametrize(("sfen", "counts"), [
    ("l6nl/5+P1gk/2np1S3/p1p4Pp/3P2Sp1/1PPb2P1P/P5GS1/R8/LN4bKL w RGgsn5p 1", [1, 207, 28684, 4809015, 516925165]),
    ("R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1", [1, 593, 105677, 53393368]),
], ids=["matsuri", "most-actions"])
def test_counts_of_positions_full_of_drops_and_promotions(sfen, counts):
    """By cshogi; the first by Fairy-Stockfish, too."""
    assert [perft(GAME.position(sfen), depth) for depth in range(len(counts))] == counts
    assert [perft(GAME.position(turned(sfen)), depth) for depth in range(len(counts) - 1)] == counts[:-1]


def test_perft_goes_on_where_the_game_is_over():
    over = GAME.position("K8/PPPPPPPPP/RR7/9/9/9/9/9/8k b 2B2G2S 1".replace("PPPPPPPPP", "GGSSLL+P+P+P"))
    assert over.is_terminal
    assert perft(over, 1) > 0


def test_most_legal_actions():
    """The known record."""
    position = GAME.position("R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1")
    assert len(position.legal_actions) == GAME.max_legal_actions == 593


def test_sizes():
    assert (GAME.num_actions, GAME.observation_shape, GAME.num_uniform_planes) == (11_259, (362, 9, 9), 114)
    assert (MINI.num_actions, MINI.observation_shape, MINI.num_uniform_planes) == (1725, (266, 5, 5), 82)
    assert Game("shogi", {"planes": "small"}).observation_shape == (46, 9, 9)
    assert Game("minishogi", {"planes": "small"}).observation_shape == (34, 5, 5)
    assert (GAME.num_symmetries, GAME.max_plies) == (1, 512)


def test_the_drawing():
    assert str(GAME.start()) == (
        "second player's hand: -\n"
        "  9  8  7  6  5  4  3  2  1\n"
        "v香v桂v銀v金v玉v金v銀v桂v香 a\n"
        " ・v飛 ・ ・ ・ ・ ・v角 ・ b\n"
        "v歩v歩v歩v歩v歩v歩v歩v歩v歩 c\n"
        " ・ ・ ・ ・ ・ ・ ・ ・ ・ d\n"
        " ・ ・ ・ ・ ・ ・ ・ ・ ・ e\n"
        " ・ ・ ・ ・ ・ ・ ・ ・ ・ f\n"
        " 歩 歩 歩 歩 歩 歩 歩 歩 歩 g\n"
        " ・ 角 ・ ・ ・ ・ ・ 飛 ・ h\n"
        " 香 桂 銀 金 玉 金 銀 桂 香 i\n"
        "first player's hand: -\n"
        "first player to move\n")
    assert str(after(MINI.start().text, "4e3d", "3a4b", game=MINI)).count("v") == 6
    assert "first player's hand: 歩2\n" in str(GAME.position("4k4/9/9/9/9/9/9/9/4K4 w 2P 1"))


def test_nifu():
    """An own unpromoted pawn on the file forbids a drop on it; a promoted one does not, nor the opponent's."""
    for legal in both("4k4/9/4p4/9/P8/9/1+P7/9/4K4 b P 1"):
        dropped = {move for move in legal if move.startswith("P*")}
        assert not {move for move in dropped if move[2] == "9"}
        assert {"P*8b", "P*8i", "P*5h", "P*5b"} - dropped == {"P*5b"} - dropped
        assert "P*8b" in dropped
        assert "P*5d" in dropped


def test_pieces_are_not_dropped_where_they_could_never_move():
    for legal in both("4k4/9/9/9/9/9/9/9/4K4 b RBGSNLP 1"):
        ranks = {piece: {move[3] for move in legal if move.startswith(piece + "*")} for piece in "PLNSGBR"}
        assert ranks["P"] == ranks["L"] == set("bcdefghi")
        assert ranks["N"] == set("cdefghi")
        assert ranks["S"] == ranks["G"] == ranks["B"] == ranks["R"] == set("abcdefghi")


def test_pieces_promote_where_they_could_never_move_again():
    for legal in both("7k1/P1L6/4N4/4N4/9/9/9/9/4K4 b - 1"):
        assert legal >= {"9b9a+", "7b7a+", "5c4a+", "5c6a+", "5d4b+", "5d6b+"}
        assert not legal & {"9b9a", "7b7a", "5c4a", "5c6a", "5d4b", "5d6b"}


def test_promotion_is_a_choice_into_within_and_out_of_the_zone():
    for legal in both("7k1/9/2S6/3S5/9/9/9/9/4K4 b - 1"):
        assert legal >= {"7c6d", "7c6b+", "7c6b", "6d5c", "6d5c+", "6d5e"}
        assert "6d5e+" not in legal
    for legal in both("7k1/9/2+S6/3G5/9/9/9/9/4K4 b - 1"):
        assert not {move for move in legal if move.endswith("+")}


def test_pins_and_double_checks():
    for legal in both("4r3k/9/9/9/9/4P4/4G4/9/4K4 b - 1"):
        assert {"5g5h"} <= legal  # along the pin, away from the pawn
    for legal in both("4r3k/9/9/9/9/9/4G4/9/4K4 b P 1"):
        assert {move for move in legal if move.startswith("5g")} == {"5g5f", "5g5h"}
    for legal in both("4r3k/9/9/9/9/9/3n5/9/4K4 b RG 1"):  # check by rook and knight
        assert all(move.startswith("5i") for move in legal)
        assert legal


def test_a_check_from_far_is_answered_between_and_by_capture():
    for legal in both("4r3k/9/9/9/9/9/9/3G5/4K4 b P 1"):
        assert legal >= {"P*5b", "P*5h", "6h5h"}
        assert "P*1b" not in legal
        assert all(move[2] == "5" or move.startswith("5i") for move in legal)


# A pawn before the king at 1a, whose escape is closed by a gold at 3b's side.
UCHIFUZUME = "7nk/9/6G2/8G/9/9/9/9/K8 b P 1"


@pytest.mark.parametrize(("sfen", "move", "is_legal"), [
    ("6lnk/6p1p/7GG/9/9/9/9/9/K8 b P 1", "P*1b", None),
    ("7lk/7p1/8G/9/9/9/9/9/K8 b P 1", "P*1b", False),     # nothing takes the pawn, and no way out
    ("7lk/7p1/9/8G/9/9/9/9/K8 b P 1", "P*1b", True),      # the king takes it
    ("8k/7p1/8G/9/9/9/9/9/K8 b P 1", "P*1b", True),       # the king leaves to 2a
    ("7rk/7g1/8G/9/9/9/9/9/K8 b P 1", "P*1b", True),      # the gold takes it
    ("7lk/7g1/8G/9/9/9/B8/9/K8 b P 1", "P*1b", True),
    ("7lk/7g1/8G/6B2/5B3/9/9/9/K8 b P 1", "P*1b", True),
])
def test_a_pawn_is_not_dropped_to_mate(sfen, move, is_legal):
    if is_legal is None:
        with pytest.raises(ValueError, match="illegal move"):  # on a pawn
            GAME.position(sfen).from_move(move)
        return
    for legal in both(sfen):
        assert (move in legal) == is_legal
