"""A variation as the moves that a user reads."""

from collections.abc import Sequence

from shusaku.common._core import Position


def play_variation(position: Position, variation: Sequence[int]) -> tuple[list[str], Position]:
    """The moves of a variation as text, and the position after them."""
    end, texts = position.copy(), []
    for action in variation:
        texts.append(end.to_move(action))
        end.play(action)
    return texts, end
