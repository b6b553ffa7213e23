"""Positions with a known result for every move, to measure strength: which games have them, and how they are loaded.

Letters of the shapes: P positions of a set, A actions of its game.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.arena.solvers import ExactSolver, decision_positions
from shusaku.common._core import Game, Position
from shusaku.common.errors import UsageError
from shusaku.common.messages import without_planes

ILLEGAL = -2  # in `StrengthSet.results`, which is -1, 0 or 1 where the action is legal
_RESULT_OF = {"W": 1, "D": 0, "L": -1}


@dataclass(frozen=True, slots=True, eq=False)
class StrengthSet:
    """Positions with the result of every action under best play, for the player to move."""

    game: Game
    positions: list[Position]  # [P] to be copied, not played on
    results: NDArray[np.int8]  # [P, A] 1 win, 0 draw, -1 loss, ILLEGAL
    buckets: NDArray[np.intp]  # [P] indices of `bucket_names`
    bucket_names: tuple[str, ...]
    is_complete: bool = False  # whether it holds every position of the game in which a player has to move

    def __len__(self) -> int:
        """Positions, P."""
        return len(self.positions)

    @property
    def legal(self) -> NDArray[np.bool_]:  # [P, A]
        """Whether the action is legal."""
        legal: NDArray[np.bool_] = self.results != ILLEGAL
        return legal

    @property
    def optimal(self) -> NDArray[np.bool_]:  # [P, A]
        """Whether the action keeps the result of the position under best play."""
        best: NDArray[np.bool_] = self.results == self.results.max(axis=1, keepdims=True)
        return best

    def subset(self, count: int) -> "StrengthSet":
        """`count` positions, always the same, equally many of every bucket; the whole set if it has no more.

        They are spread evenly over each bucket in the order of the set, which is random in the committed set and by
        plies in a complete one.  If `count` does not divide, the first buckets get one more.  UsageError below 1.
        """
        if count < 1:
            raise UsageError(f"strength.positions={count}: must be at least 1; strength.enabled=false measures nothing")
        if count >= len(self):
            return self
        chosen: list[int] = []
        members = [np.flatnonzero(self.buckets == bucket) for bucket in range(len(self.bucket_names))]
        share, rest = divmod(count, len(members))
        for bucket, rows in enumerate(members):
            size = min(len(rows), share + (bucket < rest))
            chosen.extend(int(rows[i * len(rows) // size]) for i in range(size))
        return replace(self, positions=[self.positions[row] for row in chosen], results=self.results[chosen],
                       buckets=self.buckets[chosen], is_complete=False)


def strength_set(game: Game) -> StrengthSet | None:
    """The set of a game, or None if there is none with these parameters."""
    load = _SETS.get((game.name, tuple(sorted(without_planes(game.params).items()))))
    return load(game) if load else None


def games_with_sets() -> str:
    """Which games have a set, for an error message."""
    return ", ".join(" ".join([name, *(f"game.{key}={value}" for key, value in params)])
                     for name, params in _SETS)


def _every_position_of_tic_tac_toe(game: Game) -> StrengthSet:
    """All 4,520 positions in which a player has to move, solved here (5,478 are reachable, 958 of them final)."""
    solver = ExactSolver()
    positions = list(decision_positions(game))
    results = np.full((len(positions), game.num_actions), ILLEGAL, np.int8)  # [P, A]
    for row, position in enumerate(positions):
        for action, result in solver.results(position).items():
            results[row, action] = result
    return StrengthSet(game, positions, results, np.zeros(len(positions), np.intp), ("all",), is_complete=True)


def _committed_positions(game: Game, file: str, moves_of: Callable[[str], list[str]]) -> StrengthSet:
    """The positions of a file of `data`, made by a script of benchmarks/strength that describes them.

    `moves_of` splits the moves of a line.  Its results are those of the legal actions in the order of their numbers; a
    dot stands for an action that is illegal.
    """
    table = files("shusaku.actors.arena").joinpath("data", file)
    rows = [line.split("\t") for line in table.read_text(encoding="ascii").splitlines()[1:]]  # bucket, moves, results
    bucket_names = tuple(dict.fromkeys(bucket for bucket, _, _ in rows))
    positions = []
    results = np.full((len(rows), game.num_actions), ILLEGAL, np.int8)  # [P, A]
    for row, (_, moves, letters) in enumerate(rows):
        position = game.start()
        for move in moves_of(moves):
            position.play(position.from_move(move))
        positions.append(position)
        known = letters.replace(".", "")
        results[row, position.legal_actions] = [_RESULT_OF[letter] for letter in known]
    buckets = np.array([bucket_names.index(bucket) for bucket, _, _ in rows], np.intp)  # [P]
    return StrengthSet(game, positions, results, buckets, bucket_names)


def _positions_of_connect_four(game: Game) -> StrengthSet:
    return _committed_positions(game, "connect_four.tsv", list)


def _endgames_of_othello(game: Game) -> StrengthSet:
    return _committed_positions(game, "othello_6.tsv", str.split)


_SETS: dict[tuple[str, tuple[tuple[str, object], ...]], Callable[[Game], StrengthSet]] = {
    ("tic_tac_toe", ()): _every_position_of_tic_tac_toe,
    ("connect_four", ()): _positions_of_connect_four,
    ("othello", (("size", 6),)): _endgames_of_othello,
}
