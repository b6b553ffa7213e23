"""Which games of a run one learner process of several reads and checks."""

from collections.abc import Iterator
from dataclasses import dataclass

MOST = 16  # games in a block


@dataclass(frozen=True, slots=True)
class Share:
    """Every `of`-th block of games of the stream, by their numbers there, which begin with 1.

    By numbers and not by actors: few actors of unequal speed would give the ranks unequal windows.  One command reads a
    block.
    """

    rank: int = 0
    of: int = 1
    block: int = MOST

    @classmethod
    def sized(cls, rank: int, of: int, minimum: int, longest: int) -> "Share":
        """With blocks of which each process has one in half of `minimum` rows, also if games have `longest` rows.

        A process without games would wait, and the others and the actors for it.
        """
        return cls(rank, of, max(1, min(MOST, minimum // (2 * longest * of))))

    @property
    def is_first(self) -> bool:
        """Whether this is the process that speaks for all: it has the limiter, and puts away what no game is."""
        return self.rank == 0

    @property
    def is_whole(self) -> bool:
        """Whether there are no others."""
        return self.of == 1

    def ranges(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The first and the last number of each run of own games from `first` to `last`, both included."""
        size, block = self.block, (first - 1) // self.block
        block += (self.rank - block) % self.of
        while block * size < last:
            yield max(first, block * size + 1), min(last, (block + 1) * size)
            block += self.of

    def part(self, rows: int, slack: int = 0) -> int:
        """The own part of so many rows, rounded up; with others, `slack` more, but not more than all."""
        return rows if self.is_whole else min(rows, -(-rows // self.of) + slack)
