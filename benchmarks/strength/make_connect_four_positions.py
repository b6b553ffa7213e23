"""Makes actors/arena/data/connect_four.tsv: 3,000 connect four positions with the exact result of every move.

    python benchmarks/strength/make_connect_four_positions.py          # writes the file, about two minutes
    python benchmarks/strength/make_connect_four_positions.py --check  # the same, and compares byte for byte

A line is bucket, moves, results: the columns 1-7 as they were played from the empty board, and what each of the seven
columns leads to under best play, for the player to move: W wins, D draws, L loses, `.` is full.  Every position has
moves of different results, none occurs twice, not even mirrored.

Buckets, 500 positions each, as in Pascal Pons' test sets (http://blog.gamesolver.org): begin is at most 14 plies
played, middle at most 28, end more; easy is under 14 plies left under best play, medium at most 28, hard more.

The solver is bitbully with its book of all positions of 12 stones.  Its results are exact, so the file depends on the
seed alone, not on bitbully's version; only `random()` is drawn from, the one method that Python keeps stable.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from bitbully import BitBully
from bitbully import Board as SolverBoard

Item = TypeVar("Item")

COLUMNS, ROWS = 7, 6
CELLS = COLUMNS * ROWS
FILE = Path(__file__).resolve().parents[2] / "actors" / "arena" / "data" / "connect_four.tsv"
HEADER = "bucket\tmoves\tresults\n"
BUCKETS = ("begin_easy", "begin_medium", "begin_hard", "middle_easy", "middle_medium", "end_easy")
BUCKET_SIZE = 500
PHASES = {"begin": (0, 14), "middle": (15, 28), "end": (29, 40)}  # plies; with 41 played a single move is left
SENSE = (0.0, 0.5, 0.8, 1.0)  # how often a ply is sensible; one of these a game, the other plies are uniformly random
SEED = 20_260_117


class Board:
    """Stones of both players as bits: seven a column, the lowest cell first, the seventh always empty."""

    def __init__(self) -> None:
        self.own = 0  # of the player to move
        self.other = 0
        self.heights = [0] * COLUMNS
        self.moves: list[int] = []

    def legal(self) -> list[int]:
        return [column for column in range(COLUMNS) if self.heights[column] < ROWS]

    def cell(self, column: int) -> int:
        return 1 << (column * (ROWS + 1) + self.heights[column])

    def play(self, column: int) -> None:
        stone = self.cell(column)
        self.own, self.other = self.other, self.own | stone
        self.heights[column] += 1
        self.moves.append(column)

    def wins(self, column: int) -> bool:
        return has_four(self.own | self.cell(column))

    def loses_at_once(self, column: int) -> bool:
        """Whether the opponent has a winning reply to `column`."""
        before = self.own, self.other
        self.play(column)
        loses = any(self.wins(reply) for reply in self.legal())
        self.moves.pop()
        self.heights[column] -= 1
        self.own, self.other = before
        return loses

    def key(self) -> tuple[int, int]:
        """Equal for a position and its mirror image, and for nothing else."""
        return min((self.own, self.other), (mirrored(self.own), mirrored(self.other)))


def has_four(stones: int) -> bool:
    for step in (1, ROWS, ROWS + 1, ROWS + 2):  # vertical, diagonal, horizontal, diagonal
        pairs = stones & (stones >> step)
        if pairs & (pairs >> 2 * step):
            return True
    return False


def mirrored(stones: int) -> int:
    column = (1 << (ROWS + 1)) - 1
    return sum(
        ((stones >> i * (ROWS + 1)) & column) << (COLUMNS - 1 - i) * (ROWS + 1) for i in range(COLUMNS)
    )


def draw_position(rng: random.Random, plies: int) -> Board | None:
    """A game of `plies` plies, or None when it is decided before or no move is left."""
    board = Board()
    sense = pick(rng, SENSE)
    while len(board.moves) < plies:
        column = sensible_move(rng, board) if rng.random() < sense else pick(rng, board.legal())
        if board.wins(column):
            return None
        board.play(column)
    return board


def sensible_move(rng: random.Random, board: Board) -> int:
    """Wins if it can, else avoids to lose at once if it can (so it also blocks), and prefers the centre."""
    legal = board.legal()
    for column in legal:
        if board.wins(column):
            return column
    safe = [column for column in legal if not board.loses_at_once(column)] or legal
    return pick(rng, [column for column in safe for _ in range(4 - abs(column - COLUMNS // 2))])


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    return items[int(rng.random() * len(items))]


def plies_left(score: int, plies: int) -> int:
    """Plies until the game ends under best play, from bitbully's score after `plies` plies.

    The score is the number of stones that the winner will not have played, plus one; negative where the player to
    move loses; 0 is a draw, and a draw fills the board.
    """
    if score == 0:
        return CELLS - plies
    winner_is_first = (plies % 2 == 0) == (score > 0)
    winner_stones = CELLS // 2 + 1 - abs(score)
    return 2 * winner_stones - winner_is_first - plies


def bucket_of(plies: int, left: int) -> str:
    phase = "begin" if plies <= 14 else "middle" if plies <= 28 else "end"
    return f"{phase}_{'easy' if left < 14 else 'medium' if left <= 28 else 'hard'}"


def make_positions() -> dict[str, list[str]]:
    """The lines of each bucket, in the order in which they were found."""
    rng, solver = random.Random(SEED), BitBully()
    lines: dict[str, list[str]] = {bucket: [] for bucket in BUCKETS}
    seen: set[tuple[int, int]] = set()
    for phase, (first, last) in PHASES.items():
        wanted = [bucket for bucket in BUCKETS if bucket.startswith(phase)]
        while any(len(lines[bucket]) < BUCKET_SIZE for bucket in wanted):
            board = draw_position(rng, first + int(rng.random() * (last - first + 1)))
            if board is None or board.key() in seen:
                continue
            seen.add(board.key())
            scores = solver.score_all_moves(SolverBoard(board.moves))
            if len({(score > 0) - (score < 0) for score in scores.values()}) < 2:
                continue
            plies = len(board.moves)
            bucket = bucket_of(plies, plies_left(max(scores.values()), plies))
            if len(lines[bucket]) < BUCKET_SIZE:
                lines[bucket].append(line(bucket, board.moves, scores))
    return lines


def line(bucket: str, moves: list[int], scores: dict[int, int]) -> str:
    results = "".join(
        "." if column not in scores else "W" if scores[column] > 0 else "L" if scores[column] < 0 else "D"
        for column in range(COLUMNS)
    )
    return f"{bucket}\t{''.join(str(column + 1) for column in moves)}\t{results}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file, do not write; 1 if it differs")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    lines = make_positions()
    text = HEADER + "".join(line for bucket in BUCKETS for line in lines[bucket])
    for bucket in BUCKETS:
        plies = Counter(len(line.split("\t")[1]) for line in lines[bucket])
        print(f"{bucket:14} {len(lines[bucket])} positions; by plies played: {dict(sorted(plies.items()))}")
    print(f"{len(text):,} bytes, {time.perf_counter() - begin:.0f} s")
    if arguments.check:
        same = FILE.read_bytes() == text.encode()
        print(f"{FILE.name}: {'the same' if same else 'DIFFERS'}")
        return 0 if same else 1
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
