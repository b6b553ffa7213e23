"""`shusaku local`: the whole system in one process.  Playing and learning take turns by the limiter, each on all cores.

The same parts run on a cluster; here they are wired by hand, so this file is also the shortest description of a run:
play until the window holds enough rows, learn until every position was learned from often enough, publish, repeat.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch

from shusaku.actors.arena.strength import StoppedError, Strength, measure
from shusaku.actors.arena.strength_sets import StrengthSet, strength_set
from shusaku.actors.evaluators.evaluator import Evaluator
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common.config.rules import check_self_play
from shusaku.common.config.schema import Config, config_hash
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import GameRecord, Metrics, Weights
from shusaku.common.metrics import MetricsSink
from shusaku.common.network.network import Network
from shusaku.common.network.row_labels import row_labels
from shusaku.common.network.targets import make_targets
from shusaku.common.stage_timer import StageTimer
from shusaku.deploy.local.checkpoint import RunState, load_run, save_run
from shusaku.deploy.local.status import Progress
from shusaku.deploy.run.console import Console
from shusaku.deploy.run.measurements import conclude, measurements_due, strength_metrics
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import check_wiring
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.learner.batches import Prefetcher, batch_seed
from shusaku.learner.learner import Diverged, Learner
from shusaku.learner.optimizers import run_share
from shusaku.learner.version_index import VersionIndex
from shusaku.replay.backends import make_buffer
from shusaku.replay.buffer import Batch
from shusaku.replay.record_log import RecordLog

MAX_TURN_ROWS = 20_000  # so that checkpoints and measurements never wait long for a turn to end
MAX_WAITING_GAMES = 20_000  # finished ones that the disk does not take


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Trains until `run.minutes` are used up, then measures the strength; the same command goes on after a stop."""
    check_wiring(Path(config.run.dir), "local")
    check_self_play(config)
    row_labels(configured_game(config.game), config.learner)  # refused before anything is made
    with ExitStack() as stack:
        directory = stack.enter_context(RunDirectory(config))
        signals = stack.enter_context(StopSignals())
        local = LocalRun(config, directory, signals)
        stack.callback(local.close)
        stack.enter_context(local.console)
        local.train()
        signals.raise_received()
        result = local.finish()
        signals.raise_received()
        return result


class LocalRun:
    """One process, one thread an actor for playing, torch's threads for learning."""

    def __init__(
        self, config: Config, directory: RunDirectory, signals: StopSignals, evaluators: list[Evaluator] | None = None
    ) -> None:
        """`evaluators`, one an actor, replace the configured network where a test scripts them."""
        self.config, self.directory, self.signals = config, directory, signals
        self.console = Console()
        cores = len(os.sched_getaffinity(0))
        count = config.actors.count or cores
        torch.set_num_threads(config.learner.threads or cores)
        self.game = configured_game(config.game)
        network = Network(
            self.game.observation_shape, self.game.num_actions, config.network, make_targets(config.learner),
            config.run.seed,
        )
        self.learner = Learner(
            network, self.game, config.learner, is_quantised=config.inference.is_quantised
        )
        timers = [StageTimer() for _ in range(count)]
        self.evaluators = evaluators or [
            make_evaluator(self.game, config.inference, config.network, config.actors.games, timer)
            for timer in timers
        ]
        self.actors = [
            SelfPlay(
                self.game, config.search, config.self_play, evaluate, games=config.actors.games,
                seed=_actor_seed(config.run.seed, actor),
                identity=ActorIdentity(actor), config_hash=config_hash(config), timer=timer,
            )
            for actor, (evaluate, timer) in enumerate(zip(self.evaluators, timers, strict=False))
        ]
        self.log = RecordLog(directory.records)
        self._accepted: list[bytes] = []  # encoded records that wait to be written to the log
        self.buffer = make_buffer(
            "memory", self.game, config.replay, batch_size=config.learner.batch_size, limited=config.learner.enabled,
            symmetries=config.learner.symmetries, labels=row_labels(self.game, config.learner), threads=cores,
            on_accept=self._accepted.append,
        )
        self.versions = VersionIndex(directory.path)
        self.state = RunState()
        self.turn: list[list[GameRecord]] = [[] for _ in self.actors]  # finished games of the running turn
        self.published: Weights | None = None  # what the evaluators answer with
        self.damaged = load_run(self)
        self.sink = MetricsSink(directory.path)
        self.progress = Progress(self)
        self.batches: Prefetcher[Batch] = Prefetcher(
            lambda seed: self.buffer.sample(config.learner.batch_size, seed), config.run.seed,
            config.learner.prefetch, self.state.next_batch, self.state.next_batch,
        )
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="actor")
        self.positions = strength_set(self.game.name) if config.strength.enabled else None
        self.subset = self.positions.subset(config.strength.positions) if self.positions else None
        self._started: float | None = None  # when training began in this process; the clock of `seconds`
        self._saved_at = 0.0

    # --- the run -----------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Turns of playing and learning until the time is used up or somebody stops the run; ends with a checkpoint."""
        self._introduce()
        self._started = self._saved_at = time.monotonic()
        if self.published is None:
            self.publish()
        else:
            self._load(self.published)
        while not self.is_over() and not self.signals.should_stop():
            if self.state.rows_left or not (self.state.steps_left or self.buffer.control().throttle):
                self.play_turn()
            if self.config.learner.enabled and not self.state.rows_left:
                self.learn_turn()
            self._measure_if_due()
            self.progress.write(self.sink)
            seconds = self.config.run.checkpoint_seconds
            if seconds and time.monotonic() - self._saved_at >= seconds:
                self.checkpoint()
        self.checkpoint()
        self.state.seconds, self._started = self.seconds, None  # the final measurement is no training

    def is_over(self) -> bool:
        """Time or evaluations are used up: the latter when one actor has made its share, the others nearly so."""
        return self.seconds >= self.config.run.minutes * 60 or any(map(self._has_made_its_share, self.actors))

    @property
    def evaluations(self) -> int:
        """By the network for self-play, summed over resumes; only while no actor plays."""
        return self.state.evaluations + sum(actor.counters()["evaluations"] for actor in self.actors)

    @property
    def seconds(self) -> float:
        """Training time of the run directory, summed over resumes."""
        return self.state.seconds + (0.0 if self._started is None else time.monotonic() - self._started)

    @property
    def share_done(self) -> float:
        """Of the run: of its minutes, or of its evaluations where it goes by them; only while no actor plays."""
        run = self.config.run
        by_evaluations = min(1.0, self.evaluations / run.evaluations) if run.evaluations else 0.0
        return max(by_evaluations, run_share(self.seconds, run))

    def play_turn(self) -> None:
        """Every actor plays until its games have brought its share of the rows that the next learning turn needs.

        A turn that was stopped waits in the checkpoint, its finished games included, and is completed by the run that
        resumes: games, window and steps are those of a run that was not stopped.
        """
        self.progress.activity = "playing"
        shares = self.state.rows_left or self._shares()

        turns = [
            self._pool.submit(actor.play, rows, partial(self._should_stop, actor))
            for actor, rows in zip(self.actors, shares, strict=True)
        ]
        while wait(turns, timeout=0.2).not_done:
            self.progress.show(self.console)
        for actor, turn in enumerate(turns):
            self.turn[actor] += turn.result()
        left = [max(0, rows - sum(r.num_rows for r in turn.result())) for turn, rows in zip(turns, shares, strict=True)]
        self.state.rows_left = left if any(left) else []
        if self.state.rows_left:
            return
        for records in self.turn:  # in the order of the actors: the window depends on no thread's timing
            for record in records:
                self.buffer.append(record)
            records.clear()
        self._write_accepted()

    def _should_stop(self, actor: SelfPlay) -> bool:
        """In the thread of the actor, which asks for no other one's counters: no timing decides who stops."""
        is_late = self.seconds >= self.config.run.minutes * 60
        return self.signals.should_stop() or is_late or self._has_made_its_share(actor)

    def _has_made_its_share(self, actor: SelfPlay) -> bool:
        limit = self.config.run.evaluations
        share = -(-(limit - self.state.evaluations) // len(self.actors))
        return limit > 0 and actor.counters()["evaluations"] >= share

    def _shares(self) -> list[int]:
        """Rows that each actor brings in the next turn: what the steps until the next publication need."""
        learner, replay = self.config.learner, self.config.replay
        rows = max(1, round(learner.publish_every * learner.batch_size / replay.samples_per_position))
        missing = replay.minimum - self.buffer.stats().rows
        if missing > 0:
            rows = missing
        return [-(-min(rows, MAX_TURN_ROWS) // len(self.actors))] * len(self.actors)

    def learn_turn(self) -> None:
        """Gradient steps until the next publication, or until the limiter wants more games first."""
        self.progress.activity = "learning"
        every = self.config.learner.publish_every
        goal = end = self.batches.index + (self.state.steps_left or every - self.learner.step_count % every)
        self.state.steps_left = 0
        self.batches.allow(end)
        while self.batches.index < end:
            if self.signals.should_stop() or self.is_over():
                end = self.batches.close()
                self.state.steps_left = goal - end
                if self.batches.index >= end:
                    break
            batch = self.batches.next()
            if batch is None:
                self.state.steps_left = 0
                break
            self.learner.run_share = self.share_done
            try:
                self.learner.step(batch)
            except Diverged as error:
                self._roll_back(error)
                return
            self.progress.show(self.console)
        if self.learner.step_count % every == 0 and self.published and self.learner.step_count > self.published.step:
            self.publish()

    def checkpoint(self) -> None:
        """Everything the run needs to go on; a full disk costs this checkpoint, not the run."""
        self.progress.activity = "saving"
        self._write_accepted()
        if self._accepted:  # it would count games that the record log does not hold
            self.console.log("no checkpoint while finished games wait to be written")
            self._saved_at = time.monotonic()
            return
        try:
            save_run(self)
        except OSError as error:
            self.console.log(f"no checkpoint was written: {error}; the earlier ones are untouched, the run goes on")
        except Diverged as error:
            self._roll_back(error)
        self._saved_at = time.monotonic()

    def finish(self) -> dict[str, Any]:
        """The full table, strength.json and strength.png at the end of a run."""
        summary: dict[str, Any] = {
            "run_dir": str(self.directory.path), "seconds": round(self.seconds, 1),
            "evaluations": self.evaluations, "games": self.state.games, "rows": self.buffer.stats().inserted,
            "steps": self.learner.step_count,
            "version": self.versions.newest,
        }
        if self.positions is None or not self.config.strength.final:
            return summary
        self.progress.activity = "measuring the final strength"
        self.progress.show(self.console)
        try:
            strength = self.measure(self.positions, (16, 64, 400))
        except StoppedError:
            return summary
        self._note_strength(strength, "final_strength")  # of the whole set: no point of the curve
        return {**summary, **conclude(strength, self.positions, self.directory.path, self.console.log).to_json()}

    def close(self) -> None:
        self.batches.stop()
        self._pool.shutdown()
        self.log.close()
        self.sink.close()

    # --- parts -------------------------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        for line in [*self.directory.notes, *self.damaged]:
            self.console.log(line)
        self.console.log(f"{self.game.name}: {len(self.actors)} actors of {self.config.actors.games} games, "
                         f"evaluated by {self.evaluators[0].description}; "
                         f"learning with {self.learner.description}")

    def publish(self) -> None:
        """Hands the averaged network to every evaluator, under a number that was never used before."""
        weights = self.learner.publish(self.versions.newest + 1)
        if weights is None:
            self._roll_back(Diverged("the averaged network is not finite"))
            return
        self.versions.note(weights)
        self._load(weights)

    def _load(self, weights: Weights) -> None:
        self.published = weights
        self.buffer.record_version(weights.version)
        for evaluator in self.evaluators:
            evaluator.load(weights)

    def _roll_back(self, error: Diverged) -> None:
        """Loads the learner's last checkpoint; Diverged where there is none."""
        self.state.rollbacks += 1
        self.console.log(f"rolled back to the last checkpoint: {error}")
        load_run(self, learner_only=True, cause=error)
        self.learner.rate_factor *= 0.5  # the same batches would diverge again
        self.publish()

    def _write_accepted(self) -> None:
        """Appends them to the record log; while the disk refuses them they wait, so many and no more."""
        try:
            self.log.append(self._accepted)
        except OSError as error:
            waiting = len(self._accepted)
            self.console.log(f"{waiting:,} games could not be written: {error}; they wait for the next turn")
            if waiting > MAX_WAITING_GAMES:
                raise
            return
        self.state.games += len(self._accepted)
        self._accepted.clear()

    def _measure_if_due(self) -> None:
        if self.subset is None:
            return
        due = measurements_due(self.seconds / 60, self.config.strength.minutes)
        if due <= self.state.measurements:
            return
        self.progress.activity = "measuring the strength"
        self.progress.show(self.console)
        try:
            strength = self.measure(self.subset, (self.config.strength.simulations,))
        except StoppedError:
            return
        self.state.measurements = due
        self.state.strength.append((self.seconds, strength.searches[self.config.strength.simulations].optimal))
        self._note_strength(strength, "strength")

    def _note_strength(self, strength: Strength, source: str) -> None:
        self.sink.write(Metrics(self.learner.step_count, self.seconds, source, strength_metrics(strength)))

    def measure(self, positions: StrengthSet, simulations: tuple[int, ...]) -> Strength:
        """The share of optimal moves of what the evaluators hold now; StoppedError when the run is told to stop."""
        return measure(
            positions, self.evaluators, self.config.search, simulations, should_stop=self.signals.should_stop
        )


def _actor_seed(run_seed: int, actor: int) -> int:
    """64 bits that no mini-batch and no other actor shares."""
    return batch_seed(run_seed, (1 << 40) + actor)
