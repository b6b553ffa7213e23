"""Positions of Go, Othello and hex as stones, for notations that set them up one by one."""

from collections.abc import Mapping, Sequence

import numpy as np

from shusaku.common._core import Game, Position

EMPTY = -1


def stones_of(game: Game, position: Position) -> list[int]:
    """[H * W] player of the stone on each cell, row 0 at the top; EMPTY: none."""
    planes = position.observation()
    others = 8 if game.name == "go" and game.params["planes"] in ("zero", "komi") else 1  # eight boards of each player
    own, other = planes[0].ravel() > 0, planes[others].ravel() > 0
    stones = np.where(own, position.to_play, np.where(other, 1 - position.to_play, EMPTY))
    found: list[int] = stones.tolist()
    return found


def start_of(game: Game, stones: Sequence[int], to_play: int) -> str:
    """The position as Game.position() reads it; empty if it is the usual start."""
    start = game.start()
    if to_play == start.to_play and list(stones) == stones_of(game, start):
        return ""
    size = game.observation_shape[1]
    if game.name == "go":
        listed: Mapping[int, str] = {
            player: "".join(f"[{chr(97 + cell % size)}{chr(97 + cell // size)}]"
                            for cell, stone in enumerate(stones) if stone == player) for player in (0, 1)}
        black, white = (f"{name}{points}" if points else ""
                        for name, points in (("AB", listed[0]), ("AW", listed[1])))
        return f"(;SZ[{size}]{black}{white}PL[{'BW'[to_play]}])"
    rows = ["".join(".XO"[stone + 1] for stone in stones[row * size:(row + 1) * size]) for row in range(size)]
    return f"{'/'.join(rows)} {'XO'[to_play]}"
