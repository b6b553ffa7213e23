"""The ranks of a learner beside rank 0: each reads and checks its share of the games, and steps when rank 0 does."""

from typing import Any

from shusaku.common.config.schema import Config
from shusaku.learner.batches import Prefetcher
from shusaku.learner.ranks import Order, RankedLearner
from shusaku.learner.state_copy import Diverged
from shusaku.replay.buffer import Batch, ReplayReader


class Follower:
    """Owns the learner and the window of one rank; publishes nothing and saves nothing."""

    def __init__(self, config: Config, learner: RankedLearner, buffer: ReplayReader) -> None:
        """`buffer`: of this rank's share, without a limiter: rank 0 has the one of all."""
        self.learner = learner
        self._config, self._buffer = config, buffer

    def run(self) -> None:
        """Until rank 0 ends it; RuntimeError if rank 0, or another one, has ended by itself."""
        learner = self._config.learner
        batches: Prefetcher[Any] = Prefetcher(  # whole games are for policy gradient, which has one rank
            lambda seed: self._buffer.sample(learner.batch_size, seed), self._config.run.seed + self.learner.rank,
            learner.prefetch)
        held: Batch | None = None
        try:
            while True:
                asked = self.learner.next_order()
                if asked.order == Order.END:
                    return
                if asked.order == Order.LOAD:
                    self.learner.follow_load(int(asked.number))
                    continue
                held = batches.next() if held is None else held
                try:
                    if self.learner.follow_step(held, asked.number):
                        held = None
                except Diverged:  # as rank 0 finds, too, which then sends an earlier state
                    held = None
        finally:
            batches.stop()
