"""Ray's side of the learner: a thin shell around `learner.training_loop.TrainingLoop`."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch

from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Weights
from shusaku.common.network.row_labels import row_labels
from shusaku.learner.training_loop import TrainingLoop, TrainingReport
from shusaku.replay.backends import make_buffer


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


class LearnerActor:
    """Learns until it is stopped; a threaded Ray actor, in which `run` takes one thread until the end."""

    def __init__(self, plan: LearnerPlan) -> None:
        self._plan = plan
        self._training: TrainingLoop | None = None
        self._built = threading.Event()
        self._is_stopped = False

    def run(self) -> TrainingReport:
        """Learns and returns how it ended; raises what it cannot recover from."""
        plan, config = self._plan, self._plan.config
        torch.set_num_threads(plan.threads)
        game = configured_game(config.game)
        buffer: Any = make_buffer(
            "redis", game, config.replay, batch_size=config.learner.batch_size, symmetries=config.learner.symmetries,
            labels=row_labels(game, config.learner),
            epoch=plan.epoch, config_hash=plan.config_hash, url=plan.url, run_id=plan.run_id,
            error_buffer=float(config.learner.publish_every * config.learner.batch_size),
        )
        try:
            self._training = TrainingLoop(config, game, buffer, Path(plan.directory), config_hash=plan.config_hash,
                                          seconds=plan.seconds, describe_run=lambda: {
                                              "config": plan.config_text, "run_id": plan.run_id, "epoch": plan.epoch})
            if self._is_stopped:
                self._training.stop()
            self._built.set()
            return self._training.run()
        finally:
            buffer.close()

    def location(self) -> tuple[str, int]:
        """Node id and process id."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def report(self) -> TrainingReport:
        """State of the training; waits until checkpoint and window are read."""
        self._built.wait()
        assert self._training is not None
        return self._training.report()

    def weights(self) -> Weights | None:
        """Newest published weights; None before the first."""
        return self._training.weights() if self._training else None

    def stop(self) -> None:
        """Asks `run` to write a checkpoint and end."""
        self._is_stopped = True
        if self._training:
            self._training.stop()

    def __repr__(self) -> str:
        return f"Learner 0.{self._plan.incarnation}"
