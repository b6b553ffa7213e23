"""What the input of a network means: a digest of the planes of fixed positions, kept with the weights."""

import hashlib
from typing import TYPE_CHECKING

from shusaku.common.errors import UsageError

if TYPE_CHECKING:
    from shusaku.common._core import Game

GAMES, PLIES = 3, 16  # the fixed positions: those of so many games, as far as so many plies
CHANGED = {"tic_tac_toe": "the plane of the turn is 1 for X now, and was 0"}  # since weights have a fingerprint


def planes_fingerprint(game: "Game") -> str:
    """16 hexadecimal digits over shape and planes; other planes, or actions in another order, give other digits."""
    total = hashlib.sha256(str(game.observation_shape).encode())
    for number in range(GAMES):
        position = game.start()
        for ply in range(PLIES):
            total.update(position.observation().astype("<f4").tobytes())
            if position.is_terminal:
                break
            legal = position.legal_actions
            position.play(legal[(ply + 1) * (2 * number + 3) % len(legal)])
    return total.hexdigest()[:16]


def check_planes(game: "Game", stored: str, source: str) -> None:
    """UsageError, which begins with `source`, if its weights were trained with other planes than the game's of now.

    Weights without a fingerprint are older than these; they are good unless the planes have changed since then.
    """
    own = planes_fingerprint(game)
    if stored == own or not (stored or game.name in CHANGED):
        return
    why = CHANGED.get(game.name, f"fingerprint {stored}, and now {own}")
    raise UsageError(f"{source}: weights of {game.name} that were trained with other planes ({why}); train anew in "
                     "another run.dir, or use the version of Shusaku that wrote them")
