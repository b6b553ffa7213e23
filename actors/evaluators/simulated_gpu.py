"""A card that answers nothing of worth after a fixed time: whether everything around it could keep a real one busy."""

import time
from collections import deque

from shusaku.actors.evaluators.evaluator import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.messages import Evaluation, Leaves

DEPTH = 2


class SimulatedCard(PseudoRandomEvaluator):
    """Takes `service_seconds` for a batch, whatever its size, one after the other; all of a process are one card."""

    depth = DEPTH
    _free_at = 0.0  # when the card has done with all that was begun

    def __init__(self, game: Game, batch_size: int, service_seconds: float) -> None:
        super().__init__(game, batch_size)
        self.description = f"a simulated card, {1000 * service_seconds:g} ms a batch"
        self._service_seconds = service_seconds
        self._under_way: deque[tuple[Evaluation, float]] = deque()  # and when it is done

    def __call__(self, leaves: Leaves) -> Evaluation:
        self.begin(leaves)
        return self.finish()

    def begin(self, leaves: Leaves) -> None:
        """The host's part of the work, and a place in the card's queue."""
        answer = super().__call__(leaves)
        SimulatedCard._free_at = max(time.monotonic(), SimulatedCard._free_at) + self._service_seconds
        copy = Evaluation(answer.logits.copy(), answer.values.copy(), answer.version)
        self._under_way.append((copy, SimulatedCard._free_at))

    def is_done(self) -> bool:
        return time.monotonic() >= self._under_way[0][1]

    def finish(self) -> Evaluation:
        answer, done_at = self._under_way.popleft()
        while (left := done_at - time.monotonic()) > 0:
            time.sleep(left)
        return answer
