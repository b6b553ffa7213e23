"""Ray's side of the learner: a thin shell around `learner.training_loop.TrainingLoop`."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import decided_game
from shusaku.common.messages import Weights
from shusaku.common.mps import yield_to_others
from shusaku.common.network.row_labels import row_labels
from shusaku.common.remote_worker import RemoteWorker
from shusaku.learner.dataset import open_dataset
from shusaku.learner.opponent_pool import OpponentPool
from shusaku.learner.optimizers import run_share
from shusaku.learner.policy_gradient import open_policy_gradient
from shusaku.learner.training_loop import TrainingLoop, TrainingReport
from shusaku.replay.backends import make_buffer
from shusaku.replay.buffer import QueueOptions


@dataclass(frozen=True)
class LearnerPlan:
    """Everything that a learner is made of."""

    config: Config
    config_hash: str
    epoch: int
    incarnation: int
    directory: str  # the run directory, on this node
    url: str  # of the replay
    run_id: str
    threads: int
    seconds: float  # of training before
    config_text: str  # of the run's config.yaml
    queue: QueueOptions | None = None  # of policy gradient


class LearnerActor(RemoteWorker):
    """Learns until it is stopped."""

    def __init__(self, plan: LearnerPlan) -> None:
        super().__init__()
        self._plan = plan
        self.run_seconds = plan.seconds
        self._training: TrainingLoop | None = None
        self._pool: OpponentPool | None = None
        self._built = threading.Event()

    def run(self) -> TrainingReport:
        """Learns and returns how it ended; raises what it cannot recover from."""
        plan, config = self._plan, self._plan.config
        yield_to_others(config.learner.gpus)
        torch.set_num_threads(plan.threads)
        game = decided_game(config.game)
        buffer: Any
        unseen, learner = None, None
        directory = Path(plan.directory)
        if config.reinforce.enabled:
            self._pool = OpponentPool(directory, config.reinforce.pool_every)
            learner = open_policy_gradient(config, game, directory, self._pool)
        if config.dataset.records:
            self.activity.begin("reading the dataset")
            buffer, unseen = open_dataset(config, game, threads=plan.threads)
        else:
            buffer = make_buffer(
                "redis", game, config.replay, batch_size=config.learner.batch_size,
                symmetries=config.learner.symmetries, labels=row_labels(game, config.learner),
                epoch=plan.epoch, config_hash=plan.config_hash, url=plan.url, run_id=plan.run_id,
                error_buffer=float(config.learner.publish_every * config.learner.batch_size), queue=plan.queue,
                packed=config.learner.is_on_gpu,
            )
        try:
            self._training = TrainingLoop(config, game, buffer, directory, config_hash=plan.config_hash,
                                          learner=learner, load_weights=self._offer_to_pool,
                                          share_done=lambda: run_share(self.run_seconds, config.run),
                                          activity=self.activity, unseen=unseen, describe_run=lambda: {
                                              "config": plan.config_text, "run_id": plan.run_id, "epoch": plan.epoch,
                                              "progress": {"seconds": self.run_seconds}})
            if self._stopping.is_set():
                self._training.stop()
            self._built.set()
            return self._training.run()
        finally:
            buffer.close()

    def report(self) -> TrainingReport:
        """State of the training; waits until checkpoint and window are read."""
        self._built.wait()
        assert self._training is not None
        return self._training.report()

    def weights(self) -> Weights | None:
        """Newest published weights; None before the first."""
        return self._training.weights() if self._training else None

    def troubles(self) -> Sequence[str]:
        """Of its replay and its disk."""
        troubles = self._training.troubles() if self._training else []
        return [*troubles, self._pool.trouble] if self._pool is not None and self._pool.trouble else troubles

    def _offer_to_pool(self, weights: Weights) -> None:
        if self._pool is not None:
            self._pool.offer(weights)

    def on_stop(self) -> None:
        """`run` writes a checkpoint and ends."""
        if self._training:
            self._training.stop()

    def __repr__(self) -> str:
        return f"Learner 0.{self._plan.incarnation}"
