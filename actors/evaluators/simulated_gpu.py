"""A simulated GPU, which takes a fixed time for a batch: it shows whether the rest could keep a real GPU busy."""

import time
from collections import deque

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.messages import Evaluation, Leaves

DEPTH = 2


class SimulatedGpu(PseudoRandomEvaluator):
    """Takes `batch_latency_s` for a batch of any size, one after the other; all instances share one GPU."""

    depth = DEPTH
    _free_at = 0.0  # when the GPU ends the last batch that was begun

    def __init__(self, game: Game, batch_size: int, batch_latency_s: float) -> None:
        super().__init__(game, batch_size)
        self.description = f"a simulated GPU, {1000 * batch_latency_s:g} ms a batch"
        self._batch_latency_s = batch_latency_s
        self._in_flight: deque[tuple[Evaluation, float]] = deque()  # the answer and when it is done

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Evaluates one batch and waits for it."""
        self.begin(leaves)
        return self.finish()

    def begin(self, leaves: Leaves) -> None:
        """Does the host's part of the work and takes a place in the GPU's queue."""
        answer = super().__call__(leaves)
        SimulatedGpu._free_at = max(time.monotonic(), SimulatedGpu._free_at) + self._batch_latency_s
        copy = Evaluation(answer.logits.copy(), answer.values.copy(), answer.version)
        self._in_flight.append((copy, SimulatedGpu._free_at))

    def is_done(self) -> bool:
        """Whether `finish` would return without waiting."""
        return time.monotonic() >= self._in_flight[0][1]

    def finish(self) -> Evaluation:
        """Waits for the oldest batch in flight."""
        answer, done_at = self._in_flight.popleft()
        while (left := done_at - time.monotonic()) > 0:
            time.sleep(left)
        return answer
