"""`position` leads where python-chess and cshogi lead; games go on after draws that nobody claims."""

import random

import chess
import cshogi
import pytest

from shusaku.common._core import Game
from shusaku.deploy.protocols.uci.positions import read_position

SHUFFLE = "g1f3 g8f6 f3g1 f6g8 "


def test_chess_games_like_python_chess() -> None:
    game, chance = Game("chess"), random.Random(1)
    for _ in range(20):
        board = chess.Board()
        for _ in range(chance.randrange(80)):
            if board.is_game_over(claim_draw=True):
                break
            board.push(chance.choice(list(board.legal_moves)))
        moves = [move.uci() for move in board.move_stack]
        for words in (["startpos", "moves", *moves], ["fen", *chess.STARTING_FEN.split(), "moves", *moves]):
            assert read_position(game, words, "fen").text == board.fen()


def test_shogi_games_like_cshogi() -> None:
    game, chance = Game("shogi"), random.Random(1)
    board = cshogi.Board()
    moves = []
    for _ in range(60):
        moves.append(cshogi.move_to_usi(chance.choice(list(board.legal_moves))))
        board.push_usi(moves[-1])
    position = read_position(game, ["sfen", *cshogi.Board().sfen().split(), "moves", *moves], "sfen")
    assert position.text == board.sfen()
    assert read_position(game, ["startpos", "moves", *moves], "sfen").text == board.sfen()


def test_a_game_goes_on_after_a_draw_that_nobody_claimed() -> None:
    game = Game("chess")
    assert read_position(game, ["startpos", "moves", *(2 * SHUFFLE).split()], "fen").is_terminal
    position = read_position(game, ["startpos", "moves", *(2 * SHUFFLE).split(), "e2e4"], "fen")
    assert position.text.startswith("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq")
    assert not position.is_terminal
    fifty = "3k4/8/8/8/8/8/4R3/4K3 w - - 100 120"
    assert game.position(fifty).is_terminal
    position = read_position(game, ["fen", *fifty.split(), "moves", "e2e3"], "fen")
    assert position.text.startswith("3k4/8/8/8/8/4R3/8/4K3 b")


def test_a_game_goes_on_after_a_win_that_nobody_declared() -> None:
    game, board = Game("shogi"), cshogi.Board()
    sfen = "+P+P+P+P+P4/+P+P+P+P+P4/4K4/9/9/9/9/9/8k b 2R2B 1"
    board.set_sfen(sfen)
    moves = []
    for move, is_over in (("5c4c", False), ("1i1h", True), ("4c5c", False)):  # black may declare at each turn
        moves.append(move)
        board.push_usi(move)
        position = read_position(game, ["sfen", *sfen.split(), "moves", *moves], "sfen")
        assert position.text.split()[:3] == board.sfen().split()[:3]
        assert position.is_terminal == is_over
    with pytest.raises(ValueError, match="illegal move '5c5h'"):
        read_position(game, ["sfen", *sfen.split(), "moves", "5c5h"], "sfen")
    mated = "4k4/4G4/4P4/9/9/9/9/9/4K4 w - 1"
    with pytest.raises(ValueError, match="the game is over"):
        read_position(game, ["sfen", *mated.split(), "moves", "5a4a"], "sfen")


def test_a_shogi_game_that_is_longer_than_ours_is_searched() -> None:
    game, sfen = Game("shogi"), "4k4/9/9/9/9/9/9/9/4K4 b G 600"
    with pytest.raises(ValueError, match="600"):
        game.position(sfen)
    position = read_position(game, ["sfen", *sfen.split(), "moves", "G*5b"], "sfen")
    assert position.text == "4k4/4G4/9/9/9/9/9/9/4K4 w - 2"
    with pytest.raises(ValueError, match="3 rows"):
        read_position(game, ["sfen", "4k4/9/9", "b", "G", "600"], "sfen")


@pytest.mark.parametrize(("words", "what"), [
    ("", "say `position startpos"), ("endpos", "say `position startpos"), ("fen 8/8", "FEN"),
    ("fen", "FEN"), ("startpos moves e2e5", "illegal move|no move of this game"), ("startpos e2e4", "say `position"),
    ("fen rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3 moves e2e4", "the game is over"),
])
def test_what_is_wrong_is_told(words: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read_position(Game("chess"), words.split(), "fen")
