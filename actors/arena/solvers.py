"""Best play by brute force, for games small enough to be searched to the end."""

from collections.abc import Iterator

from shusaku.common._core import Game, Position


class ExactSolver:
    """Negamax to the end of the game with a table of positions: seconds for tic-tac-toe, infeasible for larger games.

    Values are for the player to move: 1 a win under best play, 0 a draw, -1 a loss.
    """

    def __init__(self) -> None:
        self._values: dict[int, int] = {}  # transposition key -> value

    def value(self, position: Position) -> int:
        """The result of `position` under best play."""
        if position.is_terminal:
            return position.outcome
        key = position.transposition_key
        if key not in self._values:
            self._values[key] = max(self.results(position).values())
        return self._values[key]

    def results(self, position: Position) -> dict[int, int]:
        """The result of each legal action under best play, for the player to move; empty if the game is over."""
        return {action: -self.value(play_on_copy(position, action)) for action in position.legal_actions}


def play_on_copy(position: Position, action: int) -> Position:
    """A new position: `position` after `action`; ValueError if it is illegal."""
    following = position.copy()
    following.play(action)
    return following


def decision_positions(game: Game) -> Iterator[Position]:
    """Every position that is not terminal, once each, those with fewer plies first."""
    layer = [game.start()]
    while layer:
        yield from layer
        following = {}
        for position in layer:
            for action in position.legal_actions:
                reached = play_on_copy(position, action)
                if not reached.is_terminal:
                    following[reached.transposition_key] = reached
        layer = list(following.values())
