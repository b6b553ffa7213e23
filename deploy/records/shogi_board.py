"""The pieces of a shogi board by their squares, for notations that name them; the rules stay with the core.

A piece is its letter in SFEN with its promotion, large for the first player ("P", "+b"); a square is that of USI.
"""

from collections.abc import Mapping

from shusaku.deploy.records.game_record import GameRecord, Param, RecordError

SIZES = {"shogi": 9, "minishogi": 5}
STARTS = {9: "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1", 5: "rbsgk/4p/5/P4/KGSBR b - 1"}
HAND_ORDER = "RBGSNLP"
SET = {9: {"P": 18, "L": 4, "N": 4, "S": 4, "G": 4, "B": 2, "R": 2}, 5: dict.fromkeys("PSGBR", 2)}  # of both players


class ShogiBoard:
    """The pieces of a position, kept up move by move."""

    def __init__(self, sfen: str) -> None:
        """`sfen` must be valid, as the core writes it."""
        rows, turn, hands, *_ = sfen.split()
        self.size = rows.count("/") + 1
        self.pieces = read_rows(rows)
        self.hands: list[dict[str, int]] = [{}, {}]  # player -> letter -> count
        count = ""
        for sign in hands.replace("-", ""):
            if sign.isdigit():
                count += sign
            else:
                self.hands[sign.islower()][sign.upper()] = int(count or 1)
                count = ""
        self.to_play = int(turn == "w")

    def play(self, usi: str) -> None:
        """A legal move."""
        hand = self.hands[self.to_play]
        if usi[1] == "*":
            hand[usi[0]] = hand.get(usi[0], 0) - 1
            piece = usi[0].lower() if self.to_play else usi[0]
        else:
            piece = self.pieces.pop(usi[:2])
            taken = self.pieces.get(usi[2:4])
            if taken:
                letter = taken[-1].upper()
                hand[letter] = hand.get(letter, 0) + 1
            if usi[4:]:
                piece = f"+{piece}"
        self.pieces[usi[2:4]] = piece
        self.to_play = 1 - self.to_play

    def row(self, number: int) -> list[str]:
        """The pieces of a row from left to right, the top one is 0; empty: none."""
        return [self.pieces.get(square_of(file, number + 1), "") for file in range(self.size, 0, -1)]


def square_of(file: int, row: int) -> str:
    """A square of USI; both numbers count from 1, as in Japanese notation."""
    return f"{file}{chr(96 + row)}"


def read_rows(rows: str) -> dict[str, str]:
    """Square -> piece of the first field of SFEN."""
    pieces = {}
    lines = rows.split("/")
    for number, line in enumerate(lines, start=1):
        file, mark = len(lines), ""
        for sign in line:
            if sign.isdigit():
                file -= int(sign)
            elif sign == "+":
                mark = sign
            else:
                pieces[square_of(file, number)] = mark + sign
                file, mark = file - 1, ""
    return pieces


def write_sfen(
    size: int, pieces: Mapping[str, str], hands: tuple[Mapping[str, int], Mapping[str, int]], to_play: int,
    number: int = 1,
) -> str:
    """SFEN of a position, which the core judges; empty if it is the usual start."""
    rows = []
    for row in range(1, size + 1):
        text, gap = "", 0
        for file in range(size, 0, -1):
            piece = pieces.get(square_of(file, row), "")
            gap += not piece
            if piece:
                text += (str(gap) if gap else "") + piece
                gap = 0
        rows.append(text + (str(gap) if gap else ""))
    held = ""
    for player in (0, 1):
        for letter in HAND_ORDER:
            count = hands[player].get(letter, 0)
            if not 0 <= count <= 99:
                raise RecordError(f"{count} pieces in hand")
            if count:
                held += (str(count) if count > 1 else "") + (letter.lower() if player else letter)
    sfen = f"{'/'.join(rows)} {'bw'[to_play]} {held or '-'} {number}"
    return "" if sfen == STARTS.get(size) else sfen


def inferred_params(game: str) -> dict[str, Param]:
    """What is assumed of a file's rules: those that forbid least and end least by themselves."""
    return {"max_plies": 1024, **({"declaration": False} if game == "shogi" else {})}


def kind_of_end(record: GameRecord) -> str:
    """How the rules ended the game: mate | declaration | repetition; by the outcome if they did not end it."""
    last = record.last_position()
    if not last.is_terminal:
        return "mate" if record.outcome == (-1 if last.to_play == 0 else 1) else "declaration"
    alone = record.rules().position(last.text)  # which has no past
    if not alone.is_terminal or alone.is_cut_off:
        return "repetition"
    return "mate" if alone.outcome < 0 else "declaration"
