"""From visits to probabilities of moves."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ARGMAX_BELOW = 0.05  # temperatures of which only the most visited move is left
LOW, HIGH = 0.01, 2.0


def move_probabilities(visits: Sequence[int], temperature: float) -> NDArray[np.float64]:
    """pi(a) ~ N(a)^(1 / temperature) (AlphaGo Zero, Methods); all on the first of the largest below ARGMAX_BELOW.

    Without any visit all moves are equal.
    """
    counts = np.asarray(visits, float)
    if not counts.any():
        return np.full(len(counts), 1 / len(counts))
    if temperature < ARGMAX_BELOW:
        one: NDArray[np.float64] = np.eye(len(counts))[int(counts.argmax())]
        return one
    shares = (counts / counts.max()) ** (1 / temperature)
    probabilities: NDArray[np.float64] = shares / shares.sum()
    return probabilities
