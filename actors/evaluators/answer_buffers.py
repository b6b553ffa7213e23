"""Arrays that evaluators write their answers into."""

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.messages import Leaves


class AnswerBuffers:
    """Arrays that grow to the largest batch seen."""

    def __init__(self, batch_size: int, game: Game) -> None:
        self._logits = np.empty(batch_size * game.max_legal_actions, np.float32)
        self._values = np.empty(batch_size, np.float32)

    def views(self, leaves: Leaves) -> tuple[NDArray[np.float32], NDArray[np.float32]]:  # [N], [B]
        """Logits and values of these leaves, to be written by the caller."""
        if len(leaves.actions) > len(self._logits):
            self._logits = np.empty(2 * len(leaves.actions), np.float32)
        if len(leaves) > len(self._values):
            self._values = np.empty(2 * len(leaves), np.float32)
        return self._logits[: len(leaves.actions)], self._values[: len(leaves)]
