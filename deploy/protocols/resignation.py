"""When an engine of ours gives a game up."""

from collections import deque


class ResignationRule:
    """Resigns when the searches of the last moves all saw less than a value."""

    def __init__(self, below: float, moves: int) -> None:
        """`below` in [-1, 1], for the player to move; -1: never.  `moves` of the engine have to agree."""
        self._below = below
        self._seen: deque[float] = deque(maxlen=moves)

    def record(self, value: float) -> bool:
        """Takes the root value of a search, in [-1, 1], for the engine; whether it should resign now."""
        self._seen.append(value)
        return len(self._seen) == self._seen.maxlen and max(self._seen) < self._below

    def begin_game(self) -> None:
        """Forgets the moves of the last game."""
        self._seen.clear()
