"""Shogi's and minishogi's rules where they are got wrong: positions with known answers, and published counts."""


import numpy as np
import pytest
from shogi_pair import turned

from shusaku.common._core import Game, perft, random_games

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
    """Counts are of the board alone: repetition and declaration end nothing."""
    over = repeated(START, ["2h3h", "8b7b", "3h2h", "7b8b"], 4)
    assert over.is_terminal
    assert [perft(over, depth) for depth in (1, 2, 3)] == [30, 900, 25470]
    declared = GAME.position(ENTERED.format("10P"))
    assert declared.is_terminal
    open_still = Game("shogi", {"declaration": False}).position(ENTERED.format("10P"))
    assert perft(declared, 1) == len(open_still.legal_actions)


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
    assert str(MINI.start()).splitlines()[2:4] == ["v飛v角v銀v金v玉 a", " ・ ・ ・ ・v歩 b"]
    assert "first player's hand: 歩2\n" in str(GAME.position("4k4/9/9/9/9/9/9/9/4K4 w 2P 1"))


def test_nifu():
    """An own unpromoted pawn on the file forbids a drop on it; a promoted one does not, nor the opponent's."""
    for legal in both("4k4/9/4p4/9/P8/9/1+P7/9/4K4 b P 1"):
        dropped = {move for move in legal if move.startswith("P*")}
        assert dropped >= {"P*8b", "P*8i", "P*5b", "P*5d", "P*5h"}
        assert {move[2] for move in dropped} == set("12345678")


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
    for legal in both("7k1/9/2S6/4S4/9/9/9/9/4K4 b - 1"):
        assert legal >= {"7c6d", "7c6d+", "7c6b", "7c6b+", "5d5c", "5d5c+", "5d6e"}
        assert "5d6e+" not in legal
    for legal in both("7k1/9/2+S6/3G5/9/9/9/9/4K4 b - 1"):
        assert not {move for move in legal if move.endswith("+")}


def test_pins_and_double_checks():
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


@pytest.mark.parametrize(("sfen", "is_legal"), [
    ("7lk/7p1/8G/9/9/9/9/9/K8 b P 1", False),   # nothing takes the pawn, and no way out
    ("7lk/7p1/9/8G/9/9/9/9/K8 b P 1", True),    # the king takes it: nothing stands behind it
    ("8k/7p1/8G/9/9/9/9/9/K8 b P 1", True),     # the king leaves to 2a
    ("7lk/7g1/8G/9/9/9/9/9/K8 b P 1", True),    # the gold takes it
    ("7lk/7g1/8G/5B3/9/9/9/9/K8 b P 1", False),  # the gold is pinned by the bishop
    ("7lk/7g1/8G/5B3/9/9/9/9/K8 b G 1", None),  # a gold may mate
])
def test_a_pawn_is_not_dropped_to_mate(sfen, is_legal):
    for legal in both(sfen):
        if is_legal is None:
            assert "G*1b" in legal
        else:
            assert ("P*1b" in legal) == is_legal
    if is_legal is None:
        assert after(sfen, "G*1b").is_terminal


def test_a_pawn_that_moves_may_mate():
    position = after("7lk/7p1/8P/7N1/9/9/9/9/K8 b - 1", "1c1b")
    assert (position.is_terminal, position.outcome) == (True, -1)


# First to move: nothing of its own can move, and the only pawn drop would mate.
LAST_DROP = "+P+P+P+P+P+P+N+N+L/PPPPPPPPL/7pk/7n1/7lp/7Ns/6+r1g/8l/7Kb b P 1"


def test_who_could_only_mate_with_a_pawn_drop_has_no_move_and_loses():
    for sfen in (LAST_DROP, turned(LAST_DROP)):
        position = GAME.position(sfen)
        assert (position.is_terminal, position.outcome, position.is_cut_off) == (True, -1, False)
        assert position.legal_actions == []
    taker = LAST_DROP.replace("7lp/7Ns", "7lg/7Ns")  # a gold takes the pawn
    assert [moves(GAME.position(taker))] == [{"P*1d"}]


def test_a_pawn_may_be_dropped_to_stalemate():
    """Uchifuzume is mate by a dropped pawn; this one gives no check, and takes the king's last square."""
    sfen = "8k/6G2/9/9/9/9/9/9/K8 b P 1"
    for position in (after(sfen, "P*1c"), after(turned(sfen), "P*9g")):
        assert (position.is_terminal, position.outcome, position.is_cut_off) == (True, -1, False)


def test_mate_and_stalemate_lose():
    mated = after("4k4/9/4P4/9/9/9/9/9/4K4 b G 1", "G*5b")
    assert (mated.is_terminal, mated.outcome, mated.to_play) == (True, -1, 1)
    for stuck in ("8k/6+R2/9/9/9/9/9/9/K8 w - 1", "8k/6G2/7S1/9/9/9/9/9/K8 w - 1"):  # not in check
        position = GAME.position(stuck)
        assert (position.is_terminal, position.outcome, position.legal_actions) == (True, -1, [])


def repeated(sfen, cycle, times, game=GAME):
    """The end of a game that goes round, and the ply at which it came."""
    position = game.position(sfen)
    for move in cycle * times:
        if position.is_terminal:
            break
        position.play(position.from_move(move))
    return position


def test_the_fourth_repetition_is_a_draw():
    position = repeated(START, ["2h3h", "8b7b", "3h2h", "7b8b"], 4)
    assert (position.ply, position.is_terminal, position.outcome, position.is_cut_off) == (12, True, 0, False)


def turned_moves(cycle):
    return ["".join(str(10 - int(c)) if c.isdecimal() else chr(ord("a") + ord("i") - ord(c)) for c in move)
            for move in cycle]


CHECKS = "4k4/9/9/9/9/9/9/9/R3K4 b - 1"
ROUND = ["9i9a", "5a5b", "9a9b", "5b5a", "9b9a", "5a5b", "9a9b", "5b5a"]


@pytest.mark.parametrize("second", [False, True])
def test_who_gives_check_all_the_time_loses(second):
    sfen, cycle = (turned(CHECKS), turned_moves(ROUND)) if second else (CHECKS, ROUND)
    position = repeated(sfen, [*cycle, *cycle[4:], *cycle[4:]], 1)
    assert (position.ply, position.outcome) == (13, 1)  # the fourth time after a check: who is in check has won
    assert position.to_play == (0 if second else 1)
    begun = repeated(after(sfen, *cycle[:4]).text, cycle[4:], 4)
    assert (begun.ply, begun.outcome) == (4 + 12, -1)  # the fourth time after an evasion
    assert begun.to_play == (1 if second else 0)


def test_one_quiet_ply_makes_it_a_draw():
    quiet = ["9i9a", "5a5b", "9a9i", "5b5a"]
    position = repeated(CHECKS, quiet, 4)
    assert (position.ply, position.outcome) == (12, 0)
    before = [*ROUND[:4], "9b9c", "5a5b", "9c9b", "5b5a", *ROUND[4:], *ROUND[4:]]  # one quiet round among checks
    position = repeated(CHECKS, before, 1)
    assert (position.is_terminal, position.outcome) == (True, 0)


def test_repetition_counts_from_where_the_position_was_set_up():
    text = repeated(START, ["2h3h", "8b7b", "3h2h", "7b8b"], 2).text
    assert not repeated(text, ["2h3h", "8b7b", "3h2h", "7b8b"], 2).is_terminal


def test_minishogi_has_no_draw_by_repetition():
    """The first player loses, unless the second one gave check all the time (Fairy-Stockfish's minishogi)."""
    cycle = ["4e4d", "2a2b", "4d4e", "2b2a"]
    position = repeated(MINI.start().text, cycle, 4, MINI)
    assert (position.ply, position.to_play, position.outcome) == (12, 0, -1)
    later = repeated(after(MINI.start().text, "4e4d", game=MINI).text, [*cycle[1:], cycle[0]], 4, MINI)
    assert (later.to_play, later.outcome) == (1, 1)


def test_the_second_player_of_minishogi_loses_by_perpetual_check():
    cycle = ["3a2a", "2e3e", "2a3a", "3e2e"]
    position = repeated(after("r3k/5/5/5/2K2 w - 1", "5a3a", "3e2e", game=MINI).text, cycle, 4, MINI)
    assert (position.ply - 2, position.to_play, position.outcome) == (12, 1, -1), "not the first player, as else"
    position = repeated("r3k/5/5/5/2K2 w - 1", ["5a3a", "3e2e", *cycle * 4], 1, MINI)
    assert (position.ply, position.to_play, position.outcome) == (13, 0, 1)


ENTERED = "4K4/RBSSLL3/NNGG5/9/9/9/9/9/4k4 b {} 1"  # ten pieces, 18 points


@pytest.mark.parametrize(("hand", "first", "second"), [
    ("8P", False, False), ("9P", False, True), ("10P", True, True), ("RB", True, True), ("R4P", False, True),
    ("B4P", False, True), ("B5P", True, True), ("3P10p", False, False), ("4Prb", False, False),
])
def test_who_entered_with_28_or_27_points_has_won(hand, first, second):
    for sfen, is_over in ((ENTERED.format(hand), first), (turned(ENTERED.format(hand)), second)):
        position = GAME.position(sfen)
        assert position.is_terminal == is_over, position.text
        assert not position.is_cut_off
        assert bool(position.legal_actions) == (not is_over)
        if is_over:
            assert position.outcome == 1
        assert not Game("shogi", {"declaration": False}).position(sfen).is_terminal


@pytest.mark.parametrize(("sfen", "why"), [
    ("9/RBSSLL3/NNGGK4/9/9/9/9/9/4k4 b 10P 1", ""),
    ("9/RBSSLL3/NNGG5/4K4/9/9/9/9/4k4 b 10P 1", "the king outside"),
    ("4K4/RBSSLL3/NNG6/G8/9/9/9/9/4k4 b 11P 1", "nine pieces inside"),
    ("4K3r/RBSSLL3/NNGG5/9/9/9/9/9/4k4 b 10P 1", "in check"),
    ("4K4/RBSSLL3/NNGG5/9/9/9/9/9/4k4 w 10P 1", "the other one's turn"),
])
def test_a_declaration_wants_all_of_its_conditions(sfen, why):
    for text in (sfen, turned(sfen)):
        assert GAME.position(text).is_terminal == (not why)


def test_a_declaration_is_met_by_a_move_of_the_opponent():
    position = after(ENTERED.format("10P").replace(" b ", " w "), "5i5h")
    assert (position.is_terminal, position.to_play, position.outcome) == (True, 0, 1)


def test_the_ply_limit_is_a_draw_and_says_so():
    game = Game("shogi", {"max_plies": 3})
    position = after(START, "7g7f", "3c3d", "2g2f", game=game)
    assert (position.is_terminal, position.is_cut_off, position.outcome, position.ply) == (True, True, 0, 3)
    mate = after("4k4/9/4P4/9/9/9/9/9/4K4 b G 3", "G*5b", game=game)
    assert (mate.is_terminal, mate.is_cut_off, mate.outcome) == (True, False, -1)


@pytest.mark.parametrize(("sfen", "move", "why"), [
    ("4k4/9/4p4/9/P8/9/9/9/4K4 b P 1", "P*9h", "for an own pawn stands on that file already (nifu)"),
    ("7lk/7p1/8G/9/9/9/9/9/K8 b P 1", "P*1b", "for a dropped pawn may not mate (uchifuzume)"),
    ("4k4/9/9/9/9/9/9/9/4K4 b P 1", "P*9a", "for the piece could never move from there"),
    ("4k4/9/9/9/9/9/9/9/4K4 b P 1", "G*9b", "for there is no such piece in hand"),
    ("4k4/9/9/9/9/9/9/9/4K4 b P 1", "P*5i", "for a piece is dropped on an empty square"),
    ("7k1/P8/9/9/9/9/9/9/4K4 b - 1", "9b9a", "it must promote (9b9a+)"),
    ("7k1/9/4N4/9/9/9/9/9/4K4 b - 1", "5c4a", "it must promote (5c4a+)"),
    ("4r3k/9/9/9/9/9/4G4/9/4K4 b P 1", "5g6g", "for the piece must stay between its king and a slider"),
    ("4r3k/9/9/9/9/9/9/3G5/4K4 b P 1", "6h7h", "for the king is in check and would stay so"),
    ("4k4/9/9/9/9/9/9/9/4K4 b P 1", "1a1b", "for nothing stands on 1a"),
    ("4k4/9/9/9/9/9/9/9/4K4 b P 1", "5a5b", "for the piece on 5a is the opponent's"),
    ("4k4/9/9/9/9/9/9/9/4K4 b P 1", "xx", "'xx' is no move of this game"),
])
def test_why_a_move_is_refused(sfen, move, why):
    with pytest.raises(ValueError, match="legal are") as error:
        GAME.position(sfen).from_move(move)
    assert why in str(error.value)


@pytest.mark.parametrize(("params", "reason"), [
    ({"max_plies": 0}, r"max_plies=0 of game shogi: must lie in \[1, 1024\]"),
    ({"max_plies": 1025}, "max_plies=1025"),
    ({"planes": "big"}, "planes=big of game shogi: must be one of zero, small"),
    ({"declaration": 3}, "wrong type"),
])
def test_parameters_are_checked(params, reason):
    with pytest.raises(ValueError, match=reason):
        Game("shogi", params)
    if "declaration" in params:
        with pytest.raises(ValueError, match="no parameter 'declaration'"):
            Game("minishogi", {"declaration": True})


def test_keys():
    """Transposed moves lead to the same board, but to other planes and another past."""
    one = after(START, "7g7f", "3c3d", "2g2f")
    other = after(START, "2g2f", "3c3d", "7g7f")
    small = Game("shogi", {"planes": "small"})
    assert one.evaluation_key != other.evaluation_key
    assert one.transposition_key != other.transposition_key  # other boards may come again
    keys = {after(START, *line, game=small).evaluation_key
            for line in (("7g7f", "3c3d", "2g2f"), ("2g2f", "3c3d", "7g7f"))}
    assert len(keys) == 1
    again = repeated(START, ["2h3h", "8b7b", "3h2h", "7b8b"], 1, small)
    assert again.evaluation_key != small.start().evaluation_key  # it was there before
    assert after(START, "7g7f").transposition_key == after(START, "7g7f").transposition_key
    assert GAME.position(START.replace("b - 1", "b - 3")).transposition_key != GAME.start().transposition_key


@pytest.mark.parametrize("game", [GAME, MINI], ids=["shogi", "minishogi"])
def test_random_games_are_as_long_as_those_of_legal_actions(game):
    """The core draws its random moves without listing them."""
    random, lengths = np.random.default_rng(5), []
    for _ in range(200):
        position = game.start()
        while not position.is_terminal:
            position.play(int(random.choice(position.legal_actions)))
        lengths.append(position.ply)
    error = np.std(lengths) / len(lengths) ** 0.5
    assert random_games(game, 4000, 1) / 4000 == pytest.approx(np.mean(lengths), abs=4 * error)
