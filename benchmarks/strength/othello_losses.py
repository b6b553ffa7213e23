"""Where the games of an Othello 6x6 match that its first player did not win went wrong, by exact solution.

    shusaku match ... match.file=games.jsonl
    python -m benchmarks.strength.othello_losses games.jsonl [--empty 22]

Every position of such a game with at most so many empty squares is solved (othello_solver.cpp, compiled here; 22 take
three minutes for 23 games).  Prints how many were lost, drawn or won for the first player there, and at how many empty
squares it gave away what it had.
"""

import argparse
import json
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.strength.othello_solver import compiled, solve_boards
from shusaku.common._core import Game

NAMES = {-1: "lost", 0: "drawn", 1: "won"}


class Solved(NamedTuple):
    """A position of a game."""

    game: int
    empty: int
    value: int  # under best play, for the first player of the match


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", type=Path)
    parser.add_argument("--empty", type=int, default=20)
    options = parser.parse_args()
    if not options.games.is_file():
        parser.error(f"{options.games}: no such file; `shusaku match ... match.file={options.games}` writes it")
    games = [json.loads(line) for line in options.games.read_text().splitlines()]
    missed = [game for game in games if game["points"] < 1]
    print(f"{len(games)} games, {len(missed)} not won")
    positions = solve(missed, options.empty)
    first: dict[int, Solved] = {}
    thrown: Counter[tuple[int, int, int]] = Counter()
    for before, after in pairwise(positions):
        first.setdefault(before.game, before)
        if before.game == after.game and after.value < before.value:
            thrown[before.empty, before.value, after.value] += 1
    values = Counter(position.value for position in first.values())
    print(f"with {options.empty} empty squares: " + ", ".join(f"{values[v]} {name}" for v, name in NAMES.items()))
    for (empty, before_value, after_value), count in sorted(thrown.items(), reverse=True):
        print(f"  {empty:2d} empty: from {NAMES[before_value]} to {NAMES[after_value]}, {count}")


def solve(games: list[dict[str, Any]], empty: int) -> list[Solved]:
    """The positions of these games with at most `empty` empty squares, in order."""
    rows: list[tuple[int, int, bool, str]] = []
    for game in games:
        position = Game("othello", {"size": 6}).start()
        for move in game["moves"]:
            own, other = position.observation()[:2]
            left = 36 - int(own.sum() + other.sum())
            cells = "".join("X" if a else "O" if b else "." for a, b in zip(own.ravel(), other.ravel(), strict=True))
            if left <= empty:
                rows.append((game["game"], left, (position.to_play == 0) == game["first_moves_first"], cells))
            position.play(position.from_move(move))
    with tempfile.TemporaryDirectory() as folder:
        values = solve_boards(compiled(Path(folder)), [cells for *_, cells in rows])
    return [
        Solved(game, left, value if is_first else -value)
        for (game, left, is_first, _), value in zip(rows, values, strict=True)
    ]


if __name__ == "__main__":
    main()
