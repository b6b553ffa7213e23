"""A chess position of ours beside python-chess's, which makes the same moves."""

import chess
import numpy as np

from shusaku.common._core import Game

PIECES = [chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING]


class Pair:
    """Everything that the rules say of a game, from both; repetition and fifty moves end it without a claim."""

    def __init__(self, fen=chess.STARTING_FEN, max_plies=512):
        self.game = Game("chess", {"max_plies": max_plies})
        self.ours = self.game.position(fen)
        self.board = chess.Board(fen)
        self.max_plies = max_plies

    def play(self, action):
        move = self.ours.to_move(action)
        self.ours.play(action)
        self.board.push_uci(move)

    def ending(self):
        """"mate", "drawn", "cut off" or None, by python-chess."""
        if self.board.is_checkmate():
            return "mate"
        if (self.board.is_stalemate() or self.board.is_insufficient_material()
                or self.board.is_repetition(3) or self.board.halfmove_clock >= 100):
            return "drawn"
        return "cut off" if len(self.board.move_stack) >= self.max_plies else None

    def compare(self):
        ours, board = self.ours, self.board
        assert ours.text == board.fen(), ours
        assert ours.to_play == (board.turn == chess.BLACK)
        ending = self.ending()
        assert ours.is_terminal == (ending is not None), f"{ending} in\n{ours}"
        assert ours.is_cut_off == (ending == "cut off")
        if ending is not None:
            assert ours.outcome == (-1 if ending == "mate" else 0)
            assert ours.legal_actions == []
            return
        actions = ours.legal_actions
        assert actions == sorted(set(actions)), "ascending, and each once"
        moves = {ours.to_move(action): action for action in actions}
        assert sorted(moves) == sorted(move.uci() for move in board.legal_moves), f"in\n{ours}"
        for move, action in moves.items():
            assert ours.from_move(move) == action == our_action(chess.Move.from_uci(move), board.turn)

    def compare_san(self):
        for action in self.ours.legal_actions:
            san = self.board.san(chess.Move.from_uci(self.ours.to_move(action)))
            assert self.ours.to_san(action) == san, f"in\n{self.ours}"
            assert self.ours.from_move(san) == action


def our_action(move, colour):
    """The number of a move by the words of the design: 73 * square + plane, as its player sees the board."""
    flip = 0 if colour == chess.WHITE else 56
    start, end = move.from_square ^ flip, move.to_square ^ flip
    files, ranks = end % 8 - start % 8, end // 8 - start // 8
    if move.promotion not in (None, chess.QUEEN):
        return 73 * start + 64 + 3 * (move.promotion - chess.KNIGHT) + files + 1
    return 73 * start + DISPLACEMENTS.index((ranks, files))


DISPLACEMENTS = sorted(
    (ranks, files) for ranks in range(-7, 8) for files in range(-7, 8)
    if (ranks, files) != (0, 0) and (0 in (ranks, files) or abs(ranks) == abs(files) or ranks**2 + files**2 == 5)
)


def zero_planes(board):
    """AlphaZero's 119 planes from python-chess's own history: [119, 8, 8]."""
    planes, me, now = np.zeros((119, 8, 8), np.float32), board.turn, board.copy()
    for age in range(8):
        for k, colour in enumerate((me, not me)):
            for piece in PIECES:
                for square in now.pieces(piece, colour):
                    planes[14 * age + 6 * k + piece - 1].flat[square if me else square ^ 56] = 1
        planes[14 * age + 12] = now.is_repetition(2)
        planes[14 * age + 13] = now.is_repetition(3)
        if not now.move_stack:
            break
        now.pop()
    planes[112] = me == chess.BLACK
    planes[113] = board.ply() / 100
    planes[114:118] = np.array(rights(board), np.float32)[:, None, None]
    planes[118] = board.halfmove_clock / 100
    return planes


def small_planes(board):
    planes, me = np.zeros((18, 8, 8), np.float32), board.turn
    planes[:12] = zero_planes(board)[:12]
    planes[12] = board.is_repetition(2)
    if board.has_legal_en_passant():
        planes[13].flat[board.ep_square if me else board.ep_square ^ 56] = 1
    planes[14:] = np.array(rights(board), np.float32)[:, None, None]
    return planes


def rights(board):
    me = board.turn
    return [board.has_kingside_castling_rights(me), board.has_queenside_castling_rights(me),
            board.has_kingside_castling_rights(not me), board.has_queenside_castling_rights(not me)]
