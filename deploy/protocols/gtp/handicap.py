"""Handicap stones of Go: the fixed points of GTP 2, section 4.1.1, and points beyond them."""

from shusaku.common._core import Game
from shusaku.deploy.protocols.gtp.text import CommandError


def most_fixed_stones(size: int) -> int:
    """The largest number that fixed_handicap knows on this board; 0: none."""
    if size < 7:
        return 0
    return 4 if size % 2 == 0 or size == 7 else 9


def fixed_cells(game: Game, stones: int) -> list[int]:
    """The fixed points; CommandError if this board has no such handicap."""
    try:
        start = Game("go", {**game.params, "handicap": stones}).start() if stones >= 2 else None
    except ValueError:
        start = None
    if start is None:
        raise CommandError("invalid number of stones")
    drawn = [sign for sign in str(start) if sign in "·●"]
    return [cell for cell, sign in enumerate(drawn) if sign == "●"]


def free_cells(game: Game, stones: int) -> list[int]:
    """Points that we choose: the fixed ones as far as there are any, then points far from all others and the edge.

    Fewer than `stones` if the board has no room, which place_free_handicap allows.
    """
    size = game.observation_shape[1]
    if stones < 2:
        raise CommandError("invalid number of stones")
    most = most_fixed_stones(size)
    cells = fixed_cells(game, min(stones, most)) if most else []
    places = [(row, column) for row in range(size) for column in range(size)]
    taken = [places[cell] for cell in cells]

    def room(place: tuple[int, int]) -> tuple[float, int]:
        """Distance to the nearest stone, and to the nearest edge."""
        row, column = place
        edge = min(row, column, size - 1 - row, size - 1 - column)
        nearest = min((abs(row - r) + abs(column - c) for r, c in taken), default=size)
        return min(nearest, 2 * edge + 1), edge

    while len(taken) < min(stones, size * size - 1):
        best = max((place for place in places if place not in taken), key=room)
        taken.append(best)
    return [row * size + column for row, column in taken]
