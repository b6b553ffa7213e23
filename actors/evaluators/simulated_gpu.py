"""A simulated GPU, which takes time as a real one does: it shows whether the rest could keep a real GPU busy."""

import time
from collections import deque

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.device_failure import DeviceFailedError
from shusaku.common.messages import Evaluation, Leaves

DEPTH = 2


class SimulatedGpu(PseudoRandomEvaluator):
    """Takes batch_s + size x row_s for a batch of up to `size` positions, one batch after the other.

    As a captured graph does, it computes all `size` rows whether they are used or not.  All instances share one GPU.
    """

    depth = DEPTH
    _free_at = 0.0  # when the GPU ends the last batch that was begun
    _begun = 0  # batches of all instances

    def __init__(self, game: Game, size: int, batch_s: float, row_s: float = 0.0, lasts: int = 0) -> None:
        """`lasts`: batches after which the GPU fails for good; 0: never."""
        super().__init__(game, size)
        self.size = size
        self.description = f"a simulated GPU, {1000 * batch_s:g} ms a batch and {1e6 * row_s:g} us a row"
        self._seconds, self._lasts = batch_s + size * row_s, lasts
        self._in_flight: deque[tuple[Evaluation, float]] = deque()  # the answer and when it is done

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Evaluates one batch and waits for it."""
        self.begin(leaves)
        return self.finish()

    def begin(self, leaves: Leaves) -> None:
        """Does the host's part of the work and takes a place in the GPU's queue; DeviceFailedError once it failed."""
        SimulatedGpu._begun += 1
        if 0 < self._lasts < SimulatedGpu._begun:
            raise DeviceFailedError(f"the simulated GPU failed after {self._lasts} batches")
        answer = super().__call__(leaves)
        SimulatedGpu._free_at = max(time.monotonic(), SimulatedGpu._free_at) + self._seconds
        copy = Evaluation(answer.logits.copy(), answer.values.copy(), answer.version)
        self._in_flight.append((copy, SimulatedGpu._free_at))

    def finish(self) -> Evaluation:
        """Waits for the oldest batch in flight."""
        answer, done_at = self._in_flight.popleft()
        while (left := done_at - time.monotonic()) > 0:
            time.sleep(left)
        return answer
