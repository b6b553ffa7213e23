"""Shogi by other people's programs behind the actions of ours: cshogi, and Fairy-Stockfish's library for minishogi.

What they do not do the way of our rules (the fourth repetition, the planes) is worked out here from SFEN, slowly.
"""

import atexit
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import cshogi
import numpy as np
import pyffish

sys.path.insert(0, str(Path(__file__).parent.parent))
from oracles import engine

PIECES = {9: "PLNSGBRK", 5: "PSGBRK"}
MOST = {9: {"P": 18, "L": 4, "N": 4, "S": 4, "G": 4, "B": 2, "R": 2}, 5: dict.fromkeys("PSGBR", 2)}
ORDER = {size: [*letters, *("+" + x for x in letters if x not in "GK")] for size, letters in PIECES.items()}
STEPS = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)]  # clockwise from straight ahead


@cache
def action_of(size, to_play, move):
    """The action of a move in USI, by what the game's description says of its order."""
    far, knights = size - 1, 2 if size == 9 else 0
    shapes = 8 * far + knights
    held = PIECES[size][:-1]

    def seen(square):
        row, column = ord(square[1]) - ord("a"), size - int(square[0])
        return (row, column) if to_play == 0 else (size - 1 - row, size - 1 - column)

    to = seen(move[2:4])
    if move[1] == "*":
        return (to[0] * size + to[1]) * (2 * shapes + len(held)) + 2 * shapes + held.index(move[0])
    start = seen(move[:2])
    rows, columns = to[0] - start[0], to[1] - start[1]
    if size == 9 and rows == -2 and abs(columns) == 1:
        shape = 8 * far + (columns > 0)
    else:
        distance = max(abs(rows), abs(columns))
        shape = STEPS.index((rows // distance, columns // distance)) * far + distance - 1
        assert (rows, columns) == tuple(distance * x for x in STEPS[shape // far])
    return (start[0] * size + start[1]) * (2 * shapes + len(held)) + shape + shapes * move.endswith("+")


class CShogi:
    """One game by cshogi."""

    size = 9

    def __init__(self, sfen=None):
        self.board = cshogi.Board(sfen) if sfen else cshogi.Board()
        self.first, self.moves = fairy_fen(sfen) if sfen else pyffish.start_fen("shogi"), []

    @property
    def text(self):
        return self.board.sfen()

    @property
    def in_check(self):
        return self.board.is_check()

    @property
    def legal_actions(self):
        turn = self.board.turn
        return sorted(cshogi_action(turn, move) for move in self.board.legal_moves)

    @property
    def declares(self):
        return self.board.is_nyugyoku()

    def play(self, move):
        self.board.push_usi(move)
        self.moves.append(to_fairy(move, 9))

    @property
    def repetition(self):
        """By Fairy-Stockfish: cshogi judges the second time that a position comes, not the fourth."""
        return repetition_of("shogi", self.first, self.moves)


ACTIONS = {}


def cshogi_action(turn, move):
    key = (turn, move & 0xFFFF)  # from, to, promotion, drop
    if key not in ACTIONS:
        ACTIONS[key] = action_of(9, turn, cshogi.move_to_usi(move))
    return ACTIONS[key]


class Fairy:
    """One game of minishogi by Fairy-Stockfish; its library needs milliseconds a call, so its program answers."""

    size = 5
    declares = False

    def __init__(self, sfen=None):
        self.first, self.moves = fairy_fen(sfen) if sfen else pyffish.start_fen("minishogi"), []
        self.fen = self.first
        self.ask()

    def ask(self, *moves):
        said = fairy_stockfish().ask(self.fen, moves)
        self.fen = re.search(r"^Fen: (.*)$", said, re.MULTILINE)[1]
        board, turn, hands, _ = re.search(r"^Sfen: (.*)$", said, re.MULTILINE)[1].split()
        self.text = f"{board} {turn} {in_order(hands)} {len(self.moves) + 1}"
        self.in_check = bool(re.search(r"^Checkers: \w", said, re.MULTILINE))
        legal, before = counted(said), self.before_the_king
        mates = f"P@{before}" in legal and not counted(fairy_stockfish().ask(self.fen, [f"P@{before}"]))
        self.legal_actions = sorted(fairy_action(int(turn == "w"), move) for move in legal
                                    if not (mates and move == f"P@{before}"))

    @property
    def before_the_king(self):
        """Where a pawn gives check.  Fairy-Stockfish lists a drop there that mates, and then calls it lost for who
        dropped it (Position::checkmate_value)."""
        board, turn, *_ = self.text.split()
        rows = re.sub(r"\d", lambda digit: "." * int(digit[0]), board.replace("+", "")).split("/")
        king, ahead = ("k", 1) if turn == "b" else ("K", -1)
        row = next(r for r, line in enumerate(rows) if king in line)
        return f"{'abcde'[rows[row].index(king)]}{5 - (row + ahead)}"

    def play(self, move):
        self.moves.append(to_fairy(move, 5))
        self.ask(self.moves[-1])

    @property
    def repetition(self):
        return repetition_of("minishogi", self.first, self.moves)


def repetition_of(variant, fen, moves):
    """Whether Fairy-Stockfish says that the moves so far end the game, and how for the player to move."""
    is_over, value = pyffish.is_optional_game_end(variant, fen, moves)
    return is_over, int(np.sign(value)) if is_over else 0


class FairyStockfish:
    """The program, which counts behind each legal move and writes the position."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.process.stdin.write("uci\nsetoption name UCI_Variant value minishogi\n")
        atexit.register(self.close)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def ask(self, fen, moves):
        self.process.stdin.write(f"position fen {fen} moves {' '.join(moves)}\nd\ngo perft 1\n")
        lines = []
        while not lines or not lines[-1].startswith("Nodes searched"):
            lines.append(self.process.stdout.readline())
            assert lines[-1], "fairy-stockfish ended"
        return "".join(lines)


@cache
def fairy_stockfish():
    return FairyStockfish(engine("fairy-stockfish"))


def counted(said):
    return re.findall(r"^(\S+): 1$", said, re.MULTILINE)


def fairy_fen(sfen):
    board, turn, hands, *_ = sfen.split()
    held = "".join(piece * int(count or 1) for count, piece in re.findall(r"(\d*)([A-Za-z])", hands))
    return f"{board}[{held}] {'w' if turn == 'b' else 'b'} 0 1"


@cache
def fairy_action(turn, move):
    def square(name):
        return f"{5 - (ord(name[0]) - ord('a'))}{chr(ord('a') + 5 - int(name[1]))}"

    if "@" in move:
        return action_of(5, turn, f"{move[0]}*{square(move[2:4])}")
    return action_of(5, turn, square(move[:2]) + square(move[2:4]) + move[4:])


def to_fairy(move, size):
    def square(name):
        return f"{chr(ord('a') + size - int(name[0]))}{size - (ord(name[1]) - ord('a'))}"

    if move[1] == "*":
        return f"{move[0]}@{square(move[2:4])}"
    return square(move[:2]) + square(move[2:4]) + move[4:]


class Watched:
    """The boards of a game by somebody else's rules, and what ends it by ours: result for the player to move."""

    def __init__(self, other, max_plies=512):
        self.other, self.max_plies = other, max_plies
        self.texts, self.checks, self.repeats = [], [], []
        self.counts = Counter()
        self.is_perpetual = False  # of the repetition that ended the game
        self.look()

    def look(self):
        text = self.other.text
        board = text.rsplit(" ", 1)[0]
        self.repeats.append(self.counts[board])
        self.counts[board] += 1
        self.texts.append(text)
        self.checks.append(self.other.in_check)
        self.legal = self.other.legal_actions

    def play(self, move):
        self.other.play(move)
        self.look()

    @property
    def end(self):
        """(outcome, is it the ply limit), or None."""
        if not self.legal:
            return -1, False
        if self.other.declares:
            return 1, False
        if self.repeats[-1] >= 3:
            return self.outcome_of_repetition(), False
        if int(self.texts[-1].split()[-1]) > self.max_plies:
            return 0, True
        return None

    def outcome_of_repetition(self):
        boards = [text.rsplit(" ", 1)[0] for text in self.texts]
        since = self.checks[boards.index(boards[-1]):]
        own, others = all(since[1::2]), all(since[2::2])  # boards after plies of the player to move, of the opponent
        self.is_perpetual = own != others
        if self.is_perpetual:
            return -1 if own else 1
        if self.other.size == 9:
            return 0
        return -1 if self.texts[-1].split()[1] == "b" else 1  # the first player loses

    def planes(self):
        """As AlphaZero's table S1 and the game's description say."""
        size, to_play = self.other.size, int(self.texts[-1].split()[1] == "w")
        boards, held = [], []
        for back in range(8):
            here = back < len(self.texts)
            board, hands = board_planes(size, to_play, self.texts[-1 - back] if here else None)
            repeats = np.zeros((3, size, size), np.float32)
            repeats[:min(3, self.repeats[-1 - back]) if here else 0] = 1
            boards += [board, repeats]
            held.append(hands)
        uniform = np.concatenate([*held, [to_play, (int(self.texts[-1].split()[-1]) - 1) / self.max_plies]])
        spread = np.broadcast_to(uniform[:, None, None], (len(uniform), size, size))
        return np.concatenate([*boards, spread]).astype(np.float32)


def compare(position, watched, where):
    """Everything that the rules say of a position; whether it is the end."""
    end = watched.end
    assert position.text == watched.texts[-1], where
    assert position.is_terminal == (end is not None), f"{where}\n{position}"
    if end is not None:
        assert position.legal_actions == [], where
        assert (position.outcome, position.is_cut_off) == end, f"{where}\n{position}"
    else:
        assert position.legal_actions == watched.legal, f"{where}\n{position}"
    return end is not None


def board_planes(size, to_play, text):
    """Pieces [own and the opponent's, N, N] and hands of one board."""
    kinds, held = ORDER[size], PIECES[size][:-1]
    planes, hands = np.zeros((2, len(kinds), size, size), np.float32), np.zeros((2, len(held)))
    if text is not None:
        board, _, in_hand, *_ = text.split()
        for row, line in enumerate(board.split("/")):
            column = 0
            for digits, piece in re.findall(r"(\d)|(\+?[A-Za-z])", line):
                if digits:
                    column += int(digits)
                    continue
                planes[int(piece.islower()) ^ to_play, kinds.index(piece.upper()), row, column] = 1
                column += 1
        for count, piece in re.findall(r"(\d*)([A-Za-z])", in_hand):
            kind = piece.upper()
            hands[int(piece.islower()) ^ to_play, held.index(kind)] = int(count or 1) / MOST[size][kind]
    if to_play:
        planes = planes[:, :, ::-1, ::-1]
    return planes.reshape(-1, size, size), hands.reshape(-1)


def turned(sfen):
    """The same position with the colours exchanged."""
    board, _, hands, number = sfen.split()
    pieces = re.findall(r"\d|/|\+?[A-Za-z]", board)[::-1]
    other = "".join(piece.swapcase() for piece in pieces)
    return f"{other} {'w' if sfen.split()[1] == 'b' else 'b'} {in_order(hands.swapcase())} {number}"


def in_order(hands):
    parts = re.findall(r"(\d*)([A-Za-z])", hands)
    return "".join(count + piece for count, piece in sorted(parts, key=lambda p: "RBGSNLPrbgsnlp".index(p[1]))) or "-"


def random_set_up(size, random):
    """SFEN of pieces anywhere, in any number that there is; most of them are positions."""
    pieces = [(letter, bool(random.integers(2))) for letter, most in MOST[size].items()
              for _ in range(int(random.integers(most + 1)))]
    cells = [int(cell) for cell in random.permutation(size * size)]
    rows = [["1"] * size for _ in range(size)]
    hands = Counter()
    for letter, is_first in [("K", True), ("K", False), *pieces]:
        cased = letter if is_first else letter.lower()
        row, column = divmod(cells.pop(), size)
        ahead = row if is_first else size - 1 - row
        if letter != "K" and random.random() < 0.4:
            hands[cased] += 1
        else:
            promotes = letter not in "KG" and (random.random() < 0.3 or (letter in "PLN" and ahead < 2))
            rows[row][column] = "+" * promotes + cased
    board = "/".join(re.sub("1+", lambda run: str(len(run[0])), "".join(row)) for row in rows)
    held = "".join((str(n) if n > 1 else "") + piece for piece, n in hands.items())
    return f"{board} {random.choice(['b', 'w'])} {in_order(held)} 1"
