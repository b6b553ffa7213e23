"""One table of faults, and both wirings go through all of it: the run goes on, and what was saved before stays good.

`local` is the whole of `shusaku local` in this process.  `cluster` is the loop that the learner actor runs, with the
driver's writers beside it, and a buffer in memory in place of Redis.
"""

import errno
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from shusaku.actors.evaluators.evaluator import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.metrics import read_metrics
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import LocalRun
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.deploy.run.run_status import MetricsWriter, StatusBuilder
from shusaku.deploy.run.run_view import FaultCounter, RunView
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.learner.checkpoints import load_latest, whole_checkpoints
from shusaku.learner.training_loop import TrainingLoop
from shusaku.replay.backends import make_buffer

SMALL = [
    "experiment=tic_tac_toe", "actors.count=1", "actors.games_per_actor=4", "search.simulations=4",
    "search.considered_actions=4", "replay.minimum=60", "replay.capacity=5000", "replay.window=fixed",
    "learner.batch_size=16", "learner.publish_every=4", "learner.threads=1", "learner.max_bad_steps=2",
    "learner.warmup_steps=0", "network.filters=4", "network.blocks=1", "strength.enabled=false", "run.minutes=5",
    "run.checkpoint_seconds=0",
]


class Run(Protocol):
    """What the table needs of a wiring."""

    directory: Path
    lines: list[str]  # for the user
    training: TrainingLoop

    def learn(self) -> None:
        """Plays, makes a few steps, saves, and writes metrics and progress."""

    def close(self) -> None:
        """Ends it in order."""


class Local:
    """`shusaku local`, round by round."""

    def __init__(self, directory: Path) -> None:
        config = compose([*SMALL, f"run.dir={directory}"])
        self.directory, self.lines = directory, []
        self._opened = RunDirectory(config)
        self._run = LocalRun(config, self._opened, StopSignals(), [PseudoRandomEvaluator(Game("tic_tac_toe"), 8)])
        self._run.console.log = self.lines.append  # type: ignore[method-assign]
        self.training = self._run.training

    def learn(self) -> None:
        goal = self._run.buffer.stats().inserted + 100
        self._run.is_over = lambda: self._run.buffer.stats().inserted >= goal  # type: ignore[method-assign]
        self._run.train()
        self._run.view()

    def close(self) -> None:
        self._run.close()
        self._opened.close()


class Cluster:
    """The learner actor's loop, and what the driver writes."""

    def __init__(self, directory: Path) -> None:
        config = compose([*SMALL, f"run.dir={directory}"])
        self.directory, self.lines = directory, []
        self._opened = RunDirectory(config)
        game = Game("tic_tac_toe")
        self._buffer = make_buffer("memory", game, config.replay, batch_size=16)
        self._actor = SelfPlay(game, config.search, config.self_play, PseudoRandomEvaluator(game, 8), games=4, seed=1,
                               identity=ActorIdentity(0))
        self.training = TrainingLoop(config, game, self._buffer, directory, config_hash="")
        self._metrics = MetricsWriter(directory, self.lines.append)
        self._status = StatusBuilder(config, game.name, directory)
        self._faults = FaultCounter()

    def learn(self) -> None:
        for record in self._actor.play(100):
            self._buffer.append(record)
        goal, step = self.training.learner.step_count + 6, self.training.learner.step

        def step_and_stop(batch: Any) -> bool:
            is_taken = step(batch)
            if self.training.learner.step_count >= goal:
                self.training.stop()
            return is_taken

        self.training.learner.step = step_and_stop  # type: ignore[method-assign]
        self.training._stopping.clear()
        self.training._batches._stopped = False
        report = self.training.run()
        self.training.learner.step = step  # type: ignore[method-assign]
        self._faults.update(report)
        self.lines += report.notes
        view = RunView(
            seconds=1.0, activity="", version=report.version, games=1, rows=1, totals={}, report=report,
            faults=self._faults.totals, quarantined=0, strength=(), runtimes=(),
        )
        self._metrics.write(view, self._status.build(view))

    def close(self) -> None:
        self.training.close()
        self._metrics.close()
        self._opened.close()


WIRINGS: dict[str, Callable[[Path], Run]] = {"local": Local, "cluster": Cluster}
