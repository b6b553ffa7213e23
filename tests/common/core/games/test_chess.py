"""Chess against python-chess and published counts, and the positions where rules are got wrong."""


import chess
import numpy as np
import pytest
from chess_pair import Pair, small_planes, zero_planes
from hypothesis import given
from hypothesis import strategies as st

from shusaku.common._core import Game, perft

# https://www.chessprogramming.org/Perft_Results
COUNTS = {
    chess.STARTING_FEN: [20, 400, 8902, 197281, 4865609, 119060324],
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1":
        [48, 2039, 97862, 4085603, 193690690],
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1": [14, 191, 2812, 43238, 674624],
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1": [6, 264, 9467, 422333, 15833292],
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8": [44, 1486, 62379, 2103487, 89941194],
    "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10":
        [46, 2079, 89890, 3894594, 164075551],
}


def at(fen, moves=""):
    position = Game("chess").position(fen)
    for move in moves.split():
        position.play(position.from_move(move))
    return position


def start(moves=""):
    return at(chess.STARTING_FEN, moves)


def moves_of(position):
    return {position.to_move(action) for action in position.legal_actions}


@pytest.mark.parametrize("fen", COUNTS)
def test_published_counts(fen):
    position = at(fen)
    assert [perft(position, depth) for depth in range(1, 5)] == COUNTS[fen][:4]


@pytest.mark.parametrize("fen", COUNTS)
def test_published_counts_of_the_mirrored_position(fen):
    assert perft(at(chess.Board(fen).mirror().fen()), 4) == COUNTS[fen][3]


@pytest.mark.long
@pytest.mark.parametrize("fen", COUNTS)
def test_published_counts_deeper(fen):
    depth = len(COUNTS[fen])
    assert perft(at(fen), depth) == COUNTS[fen][-1]


def play_beside_python_chess(seed, plies):
    """Random games, begun anew from the start and from the published positions; how they ended."""
    random, endings, played = np.random.default_rng(seed), {}, 0
    while played < plies:
        fen = list(COUNTS)[int(random.integers(len(COUNTS)))] if random.random() < 0.5 else chess.STARTING_FEN
        pair = Pair(fen, max_plies=int(random.choice([60, 512])))
        bias = random.random()  # captures make bare kings and long games with few pieces, the rest of it repetitions
        pair.compare()
        while not pair.ours.is_terminal:
            actions = pair.ours.legal_actions
            if random.random() < bias:
                takes = [a for a in actions if pair.board.is_capture(chess.Move.from_uci(pair.ours.to_move(a)))]
                actions = takes or actions
            pair.play(int(random.choice(actions)))
            pair.compare()
            played += 1
            if random.random() < 0.05:
                pair.compare_san()
        why = pair.board.outcome(claim_draw=True)
        name = why.termination.name if why else pair.ending()
        endings[name] = endings.get(name, 0) + 1
    return endings


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_games_beside_python_chess(seed):
    endings = play_beside_python_chess(seed, 5000)
    assert len(endings) >= 3, endings


def test_games_that_like_to_repeat_end_so_in_both():
    ends = [list(shuffle(seed, 200))[-1] for seed in range(20)]
    assert sum(pair.board.is_repetition(3) and pair.ours.is_terminal for pair in ends) > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(101, 141))
def test_many_random_games_beside_python_chess(seed):
    endings = play_beside_python_chess(seed, 50_000)
    assert {"CHECKMATE", "STALEMATE", "INSUFFICIENT_MATERIAL", "FIFTY_MOVES"} <= set(endings), endings


def shuffle(seed, plies):
    """A game whose players like to go back, so that positions repeat."""
    random, pair = np.random.default_rng(seed), Pair()
    while not pair.ours.is_terminal and pair.ours.ply < plies:
        back = [action for action in pair.ours.legal_actions if len(pair.board.move_stack) >= 2
                and pair.ours.to_move(action) == undo(pair.board.move_stack[-2])]
        wanted = back if back and random.random() < 0.6 else pair.ours.legal_actions
        pair.play(int(random.choice(wanted)))
        pair.compare()
        yield pair


def undo(move):
    return chess.square_name(move.to_square) + chess.square_name(move.from_square)


def test_planes_are_those_of_python_chess():
    small, repeated = Game("chess", {"planes": "small"}), 0
    for seed in range(8):
        fen = chess.STARTING_FEN
        for pair in shuffle(seed, 60):
            planes = zero_planes(pair.board)
            repeated += int(planes[12].any())
            np.testing.assert_array_equal(pair.ours.observation(), planes)
        mine = small.position(fen)
        board = chess.Board()
        random = np.random.default_rng(seed)
        while not mine.is_terminal:
            np.testing.assert_array_equal(mine.observation(), small_planes(board))
            action = int(random.choice(mine.legal_actions))
            board.push_uci(mine.to_move(action))
            mine.play(action)
    assert repeated > 20


def test_small_planes_show_a_repetition_and_their_key_knows_it():
    """The key tells apart what the planes tell apart and, of positions that are searched, nothing else."""
    small, of_key, of_planes, repeated = Game("chess", {"planes": "small"}), {}, {}, 0
    for seed in range(30):
        mine = small.start()
        for pair in shuffle(seed, 60):
            mine.play(mine.from_move(pair.board.peek().uci()))
            planes = mine.observation()
            np.testing.assert_array_equal(planes, small_planes(pair.board))
            repeated += int(planes[12].any())
            assert of_key.setdefault(mine.evaluation_key, planes.tobytes()) == planes.tobytes()
            if not mine.is_terminal:
                assert of_planes.setdefault(planes.tobytes(), mine.evaluation_key) == mine.evaluation_key
    assert repeated > 100
    assert len(of_key) < 30 * 50, "positions came again, or this test says nothing"


def test_a_position_and_its_mirror_image_are_one_to_the_network():
    random = np.random.default_rng(3)
    for planes, colour in (("zero", slice(112, 113)), ("small", slice(0, 0))):
        game = Game("chess", {"planes": planes})
        for fen in COUNTS:
            ours, mirrored = game.position(fen), game.position(chess.Board(fen).mirror().fen())
            while not ours.is_terminal and ours.ply < 60:
                a, b = ours.observation(), mirrored.observation()
                if planes == "zero":
                    assert a[colour].max() != b[colour].max()
                    a[colour] = b[colour] = 0
                    a[113] = b[113] = 0  # black begins with an odd ply
                np.testing.assert_array_equal(a, b)
                assert ours.legal_actions == mirrored.legal_actions
                if planes == "small":
                    assert ours.evaluation_key == mirrored.evaluation_key
                action = int(random.choice(ours.legal_actions))
                ours.play(action)
                mirrored.play(action)


def distinct_actions(seed, positions):
    random, seen = np.random.default_rng(seed), 0
    while seen < positions:
        position = Game("chess").start()
        while not position.is_terminal:
            actions = position.legal_actions
            moves = [position.to_move(action) for action in actions]
            assert len(set(moves)) == len(moves)
            assert [position.from_move(move) for move in moves] == actions
            position.play(int(random.choice(actions)))
            seen += 1


def test_every_move_has_an_action_of_its_own():
    distinct_actions(1, 5000)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_every_move_of_a_million_positions_has_an_action_of_its_own(seed):
    distinct_actions(seed, 100_000)


def test_en_passant_may_not_uncover_a_check():
    position = at("8/8/8/K1Pp3r/8/8/8/4k3 w - d6 0 1")  # both pawns would leave the fifth rank
    assert "c5d6" not in moves_of(position)
    assert " - - 0 1" in position.text
    assert "c5d6" in moves_of(at("8/8/8/2Pp3r/K7/8/8/4k3 w - d6 0 1"))
    assert "c5d6" not in moves_of(at("6b1/8/8/2Pp4/8/1K6/8/4k3 w - d6 0 1")), "along a diagonal"
    # The pawn that gives check may be taken en passant.
    assert "c4d3" in moves_of(at("8/8/8/8/2pPk3/8/8/4K3 b - d3 0 1"))


def test_castling():
    both = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1"
    assert {"e1g1", "e1c1"} <= moves_of(at(both))
    assert "e1g1" not in moves_of(at("r3k2r/8/8/8/8/5r2/8/R3K2R w KQkq - 0 1")), "through check"
    assert "e1c1" in moves_of(at("r3k2r/8/8/8/8/5r2/8/R3K2R w KQkq - 0 1"))
    assert not {"e1g1", "e1c1"} & moves_of(at("r3k2r/8/8/8/8/4r3/8/R3K2R w KQkq - 0 1")), "out of check"
    assert "e1g1" not in moves_of(at("r3k2r/8/8/8/8/6r1/8/R3K2R w KQkq - 0 1")), "into check"
    assert "e1c1" in moves_of(at("r3k2r/8/8/8/8/1r6/8/R3K2R w KQkq - 0 1")), "the rook may pass an attacked square"
    assert "e1c1" not in moves_of(at("r3k2r/8/8/8/8/8/8/RN2K2R w KQkq - 0 1"))
    assert at(both, "e1g1").text == "r3k2r/8/8/8/8/8/8/R4RK1 b kq - 1 1"
    assert at(both, "h1h8").text == "r3k2R/8/8/8/8/8/8/R3K3 b Qq - 0 1", "both lose the right on that side"


def test_mate_by_promotion_to_a_knight():
    position = at("6br/5Ppk/7p/8/8/8/8/K7 w - - 0 1")
    board = chess.Board(position.text)
    board.push_uci("f7f8n")
    assert board.is_checkmate()
    action = position.from_move("f8=N")
    assert position.to_san(action) == "f8=N#"
    position.play(action)
    assert (position.text, position.is_terminal, position.outcome) == (board.fen(), True, -1)
    queened = at("6br/5Ppk/7p/8/8/8/8/K7 w - - 0 1", "f7f8q")
    assert not queened.is_terminal, "a queen there does not even give check"


def test_insufficient_material():
    for fen, drawn in [
        ("8/8/4k3/8/8/3K4/8/8 w - - 0 1", True), ("8/8/4k3/8/8/3K1N2/8/8 w - - 0 1", True),
        ("8/8/4k3/8/8/3K1B2/8/8 b - - 0 1", True), ("8/8/4kb2/8/8/3K1B2/8/8 w - - 0 1", False),
        ("8/8/4k1b1/8/8/3K1B2/8/8 w - - 0 1", True), ("8/8/4kn2/8/8/3K1N2/8/8 w - - 0 1", False),
        ("8/8/4k3/8/8/3K1NN1/8/8 w - - 0 1", False), ("8/8/4k3/8/8/3K1NB1/8/8 w - - 0 1", False),
        ("8/8/4k3/4p3/4P3/3K4/8/8 w - - 0 1", False),  # a blocked wall of pawns is not detected
    ]:
        assert at(fen).is_terminal == drawn == chess.Board(fen).is_insufficient_material(), fen


def test_threefold_repetition_ends_the_game():
    position = start("g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1")
    assert not position.is_terminal
    position.play(position.from_move("f6g8"))
    assert position.is_terminal
    assert position.outcome == 0
    assert not position.is_cut_off


def test_perft_goes_on_where_the_game_is_over():
    """Counts are of the board alone: repetition, fifty moves and too little material end nothing."""
    for position in (start("g1f3 g8f6 f3g1 f6g8 " * 2), at("k7/8/8/8/8/8/4R3/4K3 w - - 100 80"),
                     at("8/8/4k3/8/8/3K1N2/8/8 w - - 0 1")):
        assert position.is_terminal
        board = chess.Board(position.text)
        assert perft(position, 1) == board.legal_moves.count()
        assert perft(position, 2) == sum(after.legal_moves.count() for after in boards_after(board))


def boards_after(board):
    for move in board.legal_moves:
        board.push(move)
        yield board
        board.pop()


def test_the_drawing():
    position = start("e2e4 g8f6")
    assert str(position) == (
        "8 ♜ ♞ ♝ ♛ ♚ ♝ · ♜\n"
        "7 ♟ ♟ ♟ ♟ ♟ ♟ ♟ ♟\n"
        "6 · · · · · ♞ · ·\n"
        "5 · · · · · · · ·\n"
        "4 · · · · ♙ · · ·\n"
        "3 · · · · · · · ·\n"
        "2 ♙ ♙ ♙ ♙ · ♙ ♙ ♙\n"
        "1 ♖ ♘ ♗ ♕ ♔ ♗ ♘ ♖\n"
        "  a b c d e f g h\n"
        "white to move\n")
    position.play(position.from_move("a2a3"))
    assert str(position).splitlines()[0] == "8 ♜ ♞ ♝ ♛ ♚ ♝ · ♜", "the board is not turned for black"
    assert str(position).endswith("black to move\n")
    assert str(at("k7/8/1K6/8/8/8/8/7R w - - 99 80", "h1h8")).endswith("mate\n")


@pytest.mark.parametrize(("params", "reason"), [
    ({"max_plies": 0}, r"max_plies=0 of game chess: must lie in \["),
    ({"planes": "big"}, "planes=big of game chess: must be one of zero, small"),
    ({"plies": 3}, "no parameter 'plies'"),
])
def test_parameters_are_checked(params, reason):
    with pytest.raises(ValueError, match=reason):
        Game("chess", params)


def test_rights_make_positions_differ():
    # The board of ply 4 is the first one's without the right to castle, so it does not count as its repetition.
    moves = "h1g1 h8g8 g1h1 g8h8 " * 2
    position = at("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", moves)
    assert not position.is_terminal
    position = at("r3k2r/8/8/8/8/8/8/R3K2R w - - 0 1", moves)
    assert position.is_terminal
    # And one where en passant is possible differs from those after it.
    position = at("4k3/8/8/8/p7/8/1P6/4K3 w - - 0 1", "b2b4 " + "e8e7 e1e2 e7e8 e2e1 " * 2)
    assert not position.is_terminal, "the first of its three times could be left by en passant"
    position.play(position.from_move("e8e7"))
    assert position.is_terminal, "this one was there after each of the three"


def test_fifty_moves_and_mate_before_them():
    assert at("k7/8/8/8/8/8/4R3/4K3 w - - 99 80", "e2e3").is_terminal
    assert at("k7/8/8/8/8/8/4R3/4K3 w - - 99 80", "e2e3").outcome == 0
    assert at("k7/8/1K6/8/8/8/8/7R w - - 99 80", "h1h8").outcome == -1, "mate goes before"


def test_keys():
    one, other = start("g1f3 g8f6 b1c3"), start("b1c3 g8f6 g1f3")
    assert one.text == other.text
    assert one.evaluation_key != other.evaluation_key, "the history is seen"
    assert one.transposition_key != other.transposition_key, "and what may be repeated differs"
    one, other = start("e2e3 e7e6 d2d3"), start("d2d3 e7e6 e2e3")
    assert one.transposition_key == other.transposition_key
    small = Game("chess", {"planes": "small"})
    keys = set()
    for moves in ("g1f3 g8f6 b1c3", "b1c3 g8f6 g1f3"):
        position = small.start()
        for move in moves.split():
            position.play(position.from_move(move))
        keys.add(position.evaluation_key)
    assert len(keys) == 1


BAD = {
    "": "0 fields",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq": "3 fields",
    "rnbqkbnr/pppppppp/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "7 ranks",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBN w KQkq - 0 1": "rank 1 has 7",
    "rnbqkbnr/ppppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "rank 7 has more than 8",
    "rnbqkbnr/pppppppp/44/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "two numbers",
    "rnbqkbnr/pppppppp/8/8/8/7x/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "'x'",
    "rnbq1bnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQ - 0 1": "black has 0 kings",
    "rnbqkbnr/pppppppp/8/8/8/4K3/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "white has 2 kings",
    "rnbqkbnr/pppppppp/8/8/8/4Q3/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "8 pawns and 1",
    "rnbqkbnr/1ppppppp/8/8/8/8/1PPPPPPP/RNBQKBNp w - - 0 1": "a pawn stands on h1; pawns stand on ranks 2 to 7",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1": "must be w or b",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w QK - 0 1": "in this order",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQ1BNR w KQkq - 0 1": "white has 0 kings",
    "rnbqkbn1/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1": "a rook on h8",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq e3 0 1": "rank 6",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq e6 0 1": "no pawn can have come",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 101 1": "[0, 100]",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 0": "[1, 32000]",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - x 1": "halfmove clock",
    "4k3/4R3/8/8/8/8/8/4K3 w - - 0 1": "black is in check",
    "4k3/8/8/8/4P3/8/8/4K3 b - e3 1 1": "a pawn has just moved",
    "4k3/8/8/1b6/8/3n4/8/4K2r w - - 0 1 9": "7 fields",
    "4k3/8/8/8/1b6/3n4/8/4K2r w - - 0 1": "three pieces give check at once",
    "4k3/8/8/8/8/8/8/8/4K3 w - - 0 1": "more than 8 ranks",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQ1BKR w KQkq - 0 1": "a king on e1",
}


@pytest.mark.parametrize("fen", BAD)
def test_fen_that_is_none(fen):
    with pytest.raises(ValueError, match="FEN") as error:
        Game("chess").position(fen)
    assert BAD[fen] in str(error.value)


def test_illegal_moves_leave_the_position():
    position = start()
    before = position.text
    for move in ("e2e5", "e7e5", "a1b5", "e2e4q", "Nf4", "O-O", "", "e9e4", "zz", "exd5"):
        with pytest.raises(ValueError, match="move"):
            position.from_move(move)
    with pytest.raises(ValueError, match="illegal action 0"):
        position.play(0)
    assert position.text == before


@pytest.mark.parametrize(("fen", "move", "why"), [
    ("4k3/8/8/8/8/8/8/1N2KN2 w - - 0 1", "Nd2", "which could be Nbd2 or Nfd2"),
    ("4k3/8/8/8/8/8/8/1N2KN2 w - - 0 1", "Nd5", "'Nd5' is no move of this game: legal are "),
    ("8/4P2k/8/8/8/8/8/4K3 w - - 0 1", "e7e8", "which does not say what the pawn becomes (e7e8q, r, b or n)"),
    ("8/4P2k/8/8/8/8/8/4K3 w - - 0 1", "e1e2q", "for no pawn reaches the last rank by it"),
    ("8/4P2k/8/8/8/8/8/4K3 w - - 0 1", "a4a5", "for nothing stands on a4"),
    ("8/4P2k/8/8/8/8/8/4K3 w - - 0 1", "h7h8", "for the piece on h7 is the opponent's"),
    ("r3k2r/8/8/8/8/5R2/8/4K3 b kq - 0 1", "e8g8", "for a king does not castle past a piece, nor out of, through"),
    ("r3k2r/8/8/8/8/8/8/4K3 b k - 0 1", "e8c8", "for the right to castle there is gone"),
])
def test_why_a_move_is_refused(fen, move, why):
    with pytest.raises(ValueError, match="legal are") as error:
        at(fen).from_move(move)
    assert why in str(error.value)


@given(st.text(alphabet="rnbqkpRNBQKP12345678/ wb-KQkqaeh360", max_size=90))
def test_fen_fuzzed(text):
    try:
        position = Game("chess").position(text)
    except ValueError:  # every other exception fails
        return
    assert Game("chess").position(position.text).text == position.text


@given(st.data())
def test_fen_with_a_change_is_refused_or_played(data):
    text = list(data.draw(st.sampled_from(list(COUNTS))))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from("rnbqkpRNBQKP12345678/ wb-0"))
    try:
        position = Game("chess").position("".join(text))
    except ValueError:
        return
    board = chess.Board("".join(text))
    assert sorted(moves_of(position)) == sorted(m.uci() for m in board.legal_moves) or position.is_terminal
    for action in position.legal_actions[:5]:
        after = position.copy()
        after.play(action)


@given(st.text(alphabet="abcdefgh12345678NBRQKxO-=+#0q", max_size=8))
def test_moves_fuzzed(text):
    position = at(list(COUNTS)[1])
    try:
        action = position.from_move(text)
    except ValueError:
        return
    assert action in position.legal_actions
