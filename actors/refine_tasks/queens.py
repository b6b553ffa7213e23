"""n queens by swaps, a task with an exact score: no queen may attack another one on a diagonal."""

import random
from collections.abc import Sequence
from typing import ClassVar

from shusaku.common.errors import UsageError

SMALLEST, LARGEST = 4, 256  # there is no solution with 2 or 3; pairs are counted one by one


class Queens:
    """n queens by swaps, scored exactly.

    The answer is the column of the queen in each row, [size]: a permutation, so only diagonals are left to mend.
    A refinement swaps the columns of an attacked queen and another one, then, half of the time, of two queens at
    random.  The score is 100 for a solution, else max(-100, 90 - 25 x attacking pairs).
    """

    parameter_help: ClassVar = {"size": "rows, columns and queens", "seed": "of first answers and swaps"}

    def __init__(self, size: int = 8, seed: int = 0) -> None:
        if not SMALLEST <= size <= LARGEST:
            raise UsageError(f"task.size={size}: must be in [{SMALLEST}, {LARGEST}]; a smaller board has no solution")
        self.size = size
        self.dummy = list(range(size))  # all on one diagonal
        self._random = random.Random(seed)

    def first(self) -> list[int]:
        """A permutation at random."""
        return self._random.sample(range(self.size), self.size)

    def critique(self, answer: Sequence[int]) -> list[int]:
        """The rows of the queens that are attacked."""
        return sorted({row for pair in attacking_pairs(answer) for row in pair})

    def refine(self, answer: Sequence[int], critique: Sequence[int]) -> list[int]:
        """The answer after one swap, or two."""
        better = list(answer)
        row = self._random.choice(critique)
        _swap(better, row, self._random.choice([other for other in range(self.size) if other != row]))
        if self._random.random() < 0.5:
            _swap(better, *self._random.sample(range(self.size), 2))
        return better

    def score(self, answer: Sequence[int]) -> float:
        """Exact, the same at every call."""
        pairs = len(attacking_pairs(answer))
        return 100.0 if not pairs else max(-100.0, 90.0 - 25.0 * pairs)


def attacking_pairs(columns: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of rows whose queens stand on one diagonal, the lower row first."""
    return [(low, high) for high in range(len(columns)) for low in range(high)
            if abs(columns[high] - columns[low]) == high - low]


def _swap(columns: list[int], one: int, other: int) -> None:
    columns[one], columns[other] = columns[other], columns[one]
