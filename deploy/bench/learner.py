"""`shusaku bench learner`: the learner alone, without replay."""

import os
import time
from typing import Any

import numpy as np
import psutil
import torch

from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.common.network.network import Network
from shusaku.common.network.row_labels import row_labels
from shusaku.common.network.targets import make_targets
from shusaku.learner.learner import Learner
from shusaku.replay.buffer import Batch


def measure_learner(config: Config) -> dict[str, Any]:
    """Gradient steps on mini-batches that are ready."""
    game = configured_game(config.game)
    threads = config.learner.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    targets = make_targets(config.learner)
    network = Network(game.observation_shape, game.num_actions, config.network, targets, config.run.seed)
    learner = Learner(network, game, config.learner)
    random, size = np.random.default_rng(1), config.learner.batch_size
    ones, board = np.ones(size, np.float32), game.observation_shape[1:]
    labels = row_labels(game, config.learner)
    policy = random.dirichlet(np.ones(game.num_actions), size).astype(np.float32)
    batch = Batch(
        observations=random.integers(0, 2, (size, *game.observation_shape)).astype(np.float32),
        policy=policy, outcome=random.integers(-1, 2, size).astype(np.float32), root_values=ones, weight=ones,
        plies_left=ones, versions=np.ones(size, np.uint32), rows=np.arange(size, dtype=np.int64), reply=policy,
        short_term=np.zeros((size, len(labels.horizons)), np.float32), ownership=np.ones((size, *board), np.float32),
        score=ones,
    )
    for _ in range(3):
        learner.step(batch)
    steps, begin = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begin) < config.bench.seconds:
        learner.step(batch)
        steps += 1
    return {"game": game.name, "threads": threads, "batch_size": size, "steps_per_s": steps / seconds,
            "rows_per_s": steps * size / seconds, "learner_mb": psutil.Process().memory_info().rss / 1e6}
