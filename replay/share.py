"""Which games of a run one learner process of several reads and checks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """Every `of`-th game of the stream, by its number there, from game `rank` on.

    By numbers and not by actors: few actors of unequal speed would give the ranks unequal windows.
    """

    rank: int = 0
    of: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that speaks for all: it has the limiter, and puts away what no game is."""
        return self.rank == 0

    def holds(self, number: int) -> bool:
        """Whether the game of this number is one of the own."""
        return number % self.of == self.rank

    def part(self, rows: int, slack: int = 0) -> int:
        """The own part of so many rows, rounded up; with others, `slack` more, but not more than all."""
        return rows if self.of == 1 else min(rows, -(-rows // self.of) + slack)
