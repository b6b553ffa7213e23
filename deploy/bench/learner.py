"""`shusaku bench learner`: the learner alone, without replay."""

import os
import time
from typing import Any

import numpy as np
import psutil
import torch

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.common.network.network import Network
from shusaku.common.network.row_labels import row_labels
from shusaku.common.network.targets import make_targets
from shusaku.learner.learner import Learner
from shusaku.replay.buffer import Batch, PackedPlanes

WARM_UPS = 5  # steps; on a GPU the step is captured in them


def measure_learner(config: Config) -> dict[str, Any]:
    """Gradient steps on mini-batches that are ready."""
    threads, size = config.learner.threads or len(os.sched_getaffinity(0)), config.learner.batch_size
    torch.set_num_threads(threads)
    learner, batch = learner_and_batch(config)
    for _ in range(WARM_UPS):
        learner.step(batch)
    learner.metrics()  # waits
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < config.bench.seconds:
        learner.step(batch)
        steps += 1
    learner.metrics()
    seconds = time.perf_counter() - begin
    return {"game": config.game.name, "threads": threads, "batch_size": size, "steps_per_s": steps / seconds,
            "rows_per_s": steps * size / seconds, "learner_mb": psutil.Process().memory_info().rss / 1e6,
            "runtime": learner.description}


def learner_and_batch(config: Config) -> tuple[Learner, Batch]:
    """An untrained learner, and a mini-batch of random rows as the window hands them to it."""
    game = configured_game(config.game)
    targets = make_targets(config.learner)
    network = Network(game.observation_shape, game.num_actions, config.network, targets, config.run.seed)
    learner = Learner(network, game, config.learner)
    random, size = np.random.default_rng(1), config.learner.batch_size
    ones, board = np.ones(size, np.float32), game.observation_shape[1:]
    labels = row_labels(game, config.learner)
    policy = random.dirichlet(np.ones(game.num_actions), size).astype(np.float32)
    batch = Batch(
        observations=_packed(game, size, random) if config.learner.is_on_gpu else (
            random.integers(0, 2, (size, *game.observation_shape)).astype(np.float32)),
        policy=policy, outcome=random.integers(-1, 2, size).astype(np.float32), root_values=ones, weight=ones,
        plies_left=ones, versions=np.ones(size, np.uint32), rows=np.arange(size, dtype=np.int64), reply=policy,
        short_term=np.zeros((size, len(labels.horizons)), np.float32), ownership=np.ones((size, *board), np.float32),
        score=ones,
    )
    return learner, batch


def _packed(game: Game, rows: int, random: np.random.Generator) -> PackedPlanes:
    """As the window hands them to a learner on a GPU."""
    return PackedPlanes(
        random.integers(0, 256, (rows, game.packed_bytes), dtype=np.uint8),
        random.random((rows, game.num_uniform_planes), np.float32),
        random.integers(0, game.num_symmetries, rows, dtype=np.uint8))
