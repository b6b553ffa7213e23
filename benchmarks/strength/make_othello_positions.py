"""Makes actors/arena/data/othello_6.tsv: 1,500 endgames of Othello 6x6 with the exact result of every move.

    python -m benchmarks.strength.make_othello_positions          # writes the file; needs g++
    python -m benchmarks.strength.make_othello_positions --check  # the same, and compares byte for byte

A line is bucket, moves, results: the moves from the start, and what each legal move, in the order of their numbers,
leads to under best play, for the player to move: W wins, D draws, L loses.  Every position has moves of different
results, none occurs twice, not even turned or mirrored.  Buckets, 500 positions each, are by empty squares.

Games are played by players of all kinds: each takes the moves that leave its opponent the fewest, and corners, now and
then or always, and else any move.  The results come from othello_solver.cpp, which has rules of its own.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.strength.othello_solver import compiled, solve_boards
from shusaku.actors.arena.solvers import play_on_copy
from shusaku.common._core import Game, Position

FILE = Path(__file__).resolve().parents[2] / "actors" / "arena" / "data" / "othello_6.tsv"
HEADER = "bucket\tmoves\tresults\n"
SIZE, PASS = 6, 36
CORNERS = (0, SIZE - 1, SIZE * (SIZE - 1), SIZE * SIZE - 1)
BUCKETS = {"empty_13_16": (13, 16), "empty_9_12": (9, 12), "empty_5_8": (5, 8)}
BUCKET_SIZE = 500
CHUNK = 64  # positions solved at a time
SENSE = (0.0, 0.5, 0.8, 1.0)  # how often a ply is sensible; one of these a game, the other plies are uniformly random
SEED = 20_261_128


class Candidate(NamedTuple):
    """A position, and how it came about."""

    position: Position
    moves: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed file and write nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = HEADER + "".join(make_positions(compiled(Path(folder))))
    if options.check:
        is_same = FILE.read_text(encoding="ascii") == text
        print(f"{FILE.name}: {'the same' if is_same else 'differs'}")
        return 0 if is_same else 1
    FILE.write_text(text, encoding="ascii")
    print(f"wrote {text.count(chr(10)) - 1:,} positions to {FILE.name}")
    return 0


def make_positions(solver: Path) -> list[str]:
    """The lines of the file, bucket by bucket, in the order in which they were found."""
    rng, game, lines = random.Random(SEED), Game("othello", {"size": SIZE}), []
    seen: set[bytes] = set()
    for bucket, (fewest, most) in BUCKETS.items():
        found: list[str] = []
        while len(found) < BUCKET_SIZE:
            candidates: list[Candidate] = []
            while len(candidates) < CHUNK:
                empty = fewest + int(rng.random() * (most - fewest + 1))
                drawn = draw_position(rng, game, empty)
                if drawn is not None and (key := canonical(drawn.position)) not in seen:
                    seen.add(key)
                    candidates.append(drawn)
            for candidate, results in zip(candidates, solve(solver, candidates), strict=True):
                if len(set(results)) > 1 and len(found) < BUCKET_SIZE:
                    found.append(f"{bucket}\t{' '.join(candidate.moves)}\t{results}\n")
        print(f"{bucket}: {len(found)}", file=sys.stderr)
        lines += found
    return lines


def draw_position(rng: random.Random, game: Game, empty: int) -> Candidate | None:
    """A game up to so many empty squares; None if it is over before, or if there is nothing to choose."""
    position, moves = game.start(), []
    sense = SENSE[int(rng.random() * len(SENSE))]
    while empty_squares(position) > empty:
        if position.is_terminal:
            return None
        legal = position.legal_actions
        action = sensible_action(rng, position) if rng.random() < sense else legal[int(rng.random() * len(legal))]
        moves.append(position.to_move(action))
        position.play(action)
    return None if position.is_terminal or len(position.legal_actions) < 2 else Candidate(position, tuple(moves))


def sensible_action(rng: random.Random, position: Position) -> int:
    """A corner, or what leaves the opponent the fewest moves; one of the equal ones."""
    worth = {action: (action not in CORNERS, replies(play_on_copy(position, action)))
             for action in position.legal_actions}
    best = [action for action, value in worth.items() if value == min(worth.values())]
    return best[int(rng.random() * len(best))]


def replies(position: Position) -> int:
    return sum(action != PASS for action in position.legal_actions)


def stones(position: Position) -> NDArray[np.int8]:  # [6, 6]
    """1 of the player to move, -1 of the other one."""
    own, other = position.observation()[:2]
    return (own.astype(np.int8) - other.astype(np.int8)).reshape(SIZE, SIZE)


def empty_squares(position: Position) -> int:
    return int((stones(position) == 0).sum())


def canonical(position: Position) -> bytes:
    """The same for all turns and mirror images."""
    board = stones(position)
    turned = [np.rot90(board, turns) for turns in range(4)]
    return min(image.tobytes() for board in turned for image in (board, board.T))


def solve(solver: Path, candidates: Sequence[Candidate]) -> list[str]:
    """The results of every legal move of each position."""
    asked = [play_on_copy(position, action) for position, _ in candidates for action in position.legal_actions]
    cells = ["".join(".XO"[stone] for stone in stones(position).ravel()) for position in asked]
    values = iter(solve_boards(solver, cells))
    return ["".join("DLW"[next(values)] for _ in position.legal_actions) for position, _ in candidates]


if __name__ == "__main__":
    sys.exit(main())
