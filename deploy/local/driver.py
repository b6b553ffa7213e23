"""`shusaku local`: the whole system in one process.  Playing and learning take turns by the limiter, each on all cores.

The same parts run on a cluster; here they are wired by hand, so this file is also the shortest description of a run:
play until the window holds enough rows, learn until every position was learned from often enough, publish, repeat.
"""

import os
import platform
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch

from shusaku.actors.arena.strength import SIMULATIONS, StoppedError, Strength, measure
from shusaku.actors.arena.strength_sets import StrengthSet
from shusaku.actors.evaluators.evaluator import Evaluator
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.policy_games.paired_games import PairedGames, make_pair
from shusaku.actors.policy_games.value_games import make_value_games
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common.config.rules import check_self_play
from shusaku.common.config.schema import Config, config_hash
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Weights
from shusaku.common.network.row_labels import row_labels
from shusaku.common.stage_timer import StageTimer
from shusaku.deploy.bench.precision_setting import settle_precision
from shusaku.deploy.local.arena_turns import ArenaTurns
from shusaku.deploy.local.games import LocalGames, epoch_of
from shusaku.deploy.records.imported_games import ImportedGames
from shusaku.deploy.run.arena_openings import check_openings
from shusaku.deploy.run.change_over import move_to_log
from shusaku.deploy.run.composed_config import replace_settings
from shusaku.deploy.run.console import Console
from shusaku.deploy.run.devices import settle_here
from shusaku.deploy.run.learner_start import check_learner_start, load_learner_start
from shusaku.deploy.run.measurements import measurements_due
from shusaku.deploy.run.network_stages import run_in_stages
from shusaku.deploy.run.reinforce_start import check_start, games_of_turn, keep_start, open_pool, queue_options
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_summary import introduce
from shusaku.deploy.run.run_view import RunView
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.deploy.run.training_run import TrainingRun
from shusaku.deploy.run.unseen_table import describe_dataset
from shusaku.deploy.run.value_policies import check_policies, load_policies
from shusaku.learner.batches import batch_seed
from shusaku.learner.dataset import open_dataset
from shusaku.learner.opponent_pool import OpponentPool
from shusaku.learner.optimizers import run_share
from shusaku.learner.policy_gradient import open_policy_gradient
from shusaku.learner.training_loop import TrainingLoop
from shusaku.replay.backends import make_buffer
from shusaku.replay.buffer import ReplayBuffer
from shusaku.replay.record_log import RecordLog
from shusaku.replay.validation import Validation

MAX_TURN_ROWS = 20_000  # so that checkpoints and measurements never wait long for a turn to end
SHOW_SECONDS = 0.2  # between two views: the learner asks after each step
SAVE_SECONDS = 5.0  # between two saves of the progress
HURRIED_SECONDS = 18.0  # for the last checkpoint if a signal wants an end within 25 s


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Trains until `run.minutes` are used up, then measures the strength; the same command goes on after a stop."""
    check_self_play(config)
    check_start(config)
    check_policies(config)
    check_learner_start(config)
    check_openings(config)
    if config.learner.ranks > 1:
        raise UsageError(f"learner.ranks={config.learner.ranks}: one process is one rank; use shusaku train")
    row_labels(configured_game(config.game), config.learner)  # refused before anything is made
    return run_in_stages(config, _run_stage)


def _run_stage(config: Config) -> tuple[dict[str, Any], bool]:
    """Until the run ends or its network has to grow; the result, and whether it goes on."""
    on_devices = settle_here(config)
    with ExitStack() as stack:
        directory = stack.enter_context(RunDirectory(config))
        signals = stack.enter_context(StopSignals())
        settled, precision = settle_precision(on_devices, directory.path)
        local = LocalRun(settled, directory, signals, precision=str(precision or ""))
        if precision is not None:
            local.log(f"inference.precision=auto: {precision}")
        stack.callback(local.close)
        stack.enter_context(local.console)
        local.train()
        signals.raise_received()
        result = local.finish()
        signals.raise_received()
        has_to_grow = local.has_to_grow
    signals.raise_received(result)  # while all that was ended
    return result, has_to_grow and not signals.should_stop()


class LocalRun(TrainingRun):
    """One process, one thread an actor for playing, torch's threads for learning."""

    def __init__(
        self, config: Config, directory: RunDirectory, signals: StopSignals, evaluators: list[Evaluator] | None = None,
        *, precision: str = "",
    ) -> None:
        """`evaluators`, one an actor, replace the configured network if a test scripts them.

        `precision`: which one is taken, and why, if that was measured.
        """
        super().__init__(config, directory, signals, Console(), SHOW_SECONDS)
        self._precision = precision
        cores = len(os.sched_getaffinity(0))
        count = config.actors.count or cores
        playing = 0 if config.dataset.records else count
        if config.reinforce.enabled:
            playing = min(playing, max(1, config.reinforce.games // 2))
        torch.set_num_threads(config.learner.threads or cores)
        move_to_log(directory.path, config, self.game, self.log)
        epoch = epoch_of(directory.path / "checkpoints")
        digest = config_hash(config)
        # 64 bits that no mini-batch, no other actor and no other driver term shares
        seeds = [batch_seed(config.run.seed, (1 << 40) + (epoch << 20) + actor) for actor in range(playing)]
        policies = load_policies(config, directory.path, self.log)
        self.evaluators: list[Evaluator] = []  # of the network that learns, if it plays
        self.actors: list[SelfPlay | PairedGames]
        self._opponents: OpponentPool | None = None
        learner = None
        if policies:
            self.actors = [
                make_value_games(config, self.game, policies, seed=seed, identity=ActorIdentity(actor, epoch),
                                 config_hash=digest)
                for actor, seed in enumerate(seeds)
            ]
        elif config.reinforce.enabled:
            keep_start(config, directory.path)
            self._opponents = open_pool(config, directory.path)
            learner = open_policy_gradient(config, self.game, directory.path, self._opponents)
            sized = replace_settings(config, actors=replace(
                config.actors, games_per_actor=games_of_turn(config, playing)))
            pairs = [
                make_pair(sized, self.game, self._opponents.draw, seed=seed, identity=ActorIdentity(actor, epoch),
                          config_hash=digest)
                for actor, seed in enumerate(seeds)
            ]
            self.actors = [*pairs]
            self.evaluators = [pair.evaluate for pair in pairs]
        else:
            timers = [StageTimer() for _ in range(count)]
            self.evaluators = evaluators or [
                make_evaluator(self.game, config.inference, config.network, config.actors.games, timer)
                for timer in timers]
            self.actors = [
                SelfPlay(self.game, config.search, config.self_play, evaluate, games=config.actors.games, timer=timer,
                         seed=seed, identity=ActorIdentity(actor, epoch), config_hash=digest,
                         resign_value=self.progress.resign_value)
                for actor, (evaluate, timer, seed) in enumerate(zip(self.evaluators, timers, seeds, strict=False))
            ]
        accepted: list[bytes] = []
        self.buffer: ReplayBuffer
        unseen = None
        if config.dataset.records:
            self.buffer, unseen = open_dataset(config, self.game, threads=cores)
        else:
            self.buffer = make_buffer(
                "memory", self.game, config.replay, batch_size=config.learner.batch_size,
                limited=config.learner.enabled, symmetries=config.learner.symmetries,
                labels=row_labels(self.game, config.learner), threads=cores, epoch=epoch, on_accept=accepted.append,
                queue=queue_options(config, takes_turns=True), packed=config.learner.is_on_gpu,
            )
        self.games = LocalGames(self.actors, self.buffer, RecordLog(directory.path / "records"), accepted, epoch,
                                Validation(self.game, digest), ImportedGames(directory.path),
                                kept_rows=config.replay.capacity if config.reinforce.enabled else 0)
        self.training = TrainingLoop(config, self.game, self.buffer, directory.path, config_hash=digest,
                                     share_done=self.share_done, load_weights=self._load_weights, self_play=self.games,
                                     describe_run=self._describe, unseen=unseen, learner=learner,
                                     start=load_learner_start(config, directory.path))
        self._arena = ArenaTurns(config, self.game, directory.path, self.gatekeeper, threads=count,
                                 should_stop=signals.should_stop)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="actor")
        self.subset = self.positions.subset(config.strength.positions) if self.positions else None
        self._version_in_use = 0
        self._seconds_before = self.progress.seconds  # of training, by earlier processes
        self._rows_in_window = 0  # that the actors had played when the window last grew

    # --- the run -----------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Turns of playing and learning until the time is used up, the network has to grow, or the run is stopped.

        Ends with a checkpoint.
        """
        introduce(self.directory, self.config.run.minutes, self.log)
        report = self.take(self.training.report())
        playing = (f"{len(self.actors)} actors of {self.actors[0].size} games, evaluated by "
                   f"{self.actors[0].description}" if self.actors else describe_dataset(self.config, report.replay))
        self.log(f"{self.game.name}: {playing}; learning with {report.description}")
        self._began = time.monotonic()
        self.training.begin_turns(self.signals.should_stop, self.show)
        while not (self.is_over() or self.has_to_grow or self.is_stopping()):
            if self.games.rows_left or not (self.training.steps_left or self.buffer.control().throttle):
                self.play_turn()
            if self.config.learner.enabled and not self.games.rows_left:
                self.activity = "learning"
                self.training.learn_turn(lambda: self.signals.should_stop() or self.is_over(), self.show)
            self.directory.keep()
            self._measure_if_due()
            self._play_for_ratings()
            self.metrics.write(*self.show(at_once=True))
            self.training.checkpoint_if_due()
            if time.monotonic() - self._saved_at >= SAVE_SECONDS:
                self.save_progress(**self._counts())
        self.training.measure_at_end(0.0 if self.signals.should_stop() else float("inf"))
        self.checkpoint()
        self.progress.seconds, self._began = self.seconds, None  # the final measurement is no training

    def is_over(self) -> bool:
        """Time or evaluations are used up: the latter when one actor has made its share, the others nearly so."""
        return super().is_over() or any(map(self._has_made_its_share, self.actors))

    @property
    def steps_made(self) -> int:
        """Gradient steps over the life of the run."""
        return self.training.learner.step_count

    @property
    def evaluations(self) -> int:
        """By the network for self-play, summed over resumes; only while no actor plays."""
        return self.progress.evaluations + sum(actor.counters()["evaluations"] for actor in self.actors)

    @property
    def lost_games(self) -> int:
        """Of the window, over the life of the run."""
        return self.progress.lost_games + self.buffer.stats().lost_games

    def share_done(self) -> float:
        """Of the run: of its minutes, or of its evaluations if it goes by them; only while no actor plays."""
        run = self.config.run
        by_evaluations = min(1.0, self.evaluations / run.evaluations) if run.evaluations else 0.0
        return max(by_evaluations, run_share(self.seconds, run))

    def play_turn(self) -> None:
        """Every actor plays until its games have brought its share of the rows that the next learning turn needs.

        A turn that was stopped waits in the checkpoint, its finished games included, and is completed by the run that
        resumes: games, window and steps are those of a run that was not stopped.
        Imported games come before any that is played.
        """
        self.activity = "playing"
        shares = self.games.rows_left or self._shares()
        if not self.games.rows_left and self.games.append_imported(sum(shares)):
            self._store_games()
            return
        turns = [self._pool.submit(actor.play, rows, partial(self._should_stop, actor))
                 for actor, rows in zip(self.actors, shares, strict=True)]
        while wait(turns, timeout=SHOW_SECONDS).not_done:
            self.show()
        if self.games.end_turn([turn.result() for turn in turns], shares):
            self._rows_in_window = self._totals()["rows"]
            self._store_games()

    def _store_games(self) -> None:
        trouble = self.games.store()
        if trouble:
            self.log(trouble)

    def checkpoint(self) -> None:
        """Everything that the run needs to go on; a full disk costs this checkpoint, not the run."""
        self.activity = "saving"
        self.training.checkpoint(HURRIED_SECONDS if self.signals.should_stop() else float("inf"))
        self.save_progress(**self._counts())

    def finish(self) -> dict[str, Any]:
        """The full table, strength.json and strength.png at the end of a run."""
        step = self.training.learner.step_count
        summary = {**self.summarize(step, evaluations=self.evaluations), **self.conclude_unseen()}
        if self.positions is None or not self.config.strength.final or self.has_to_grow:
            return summary
        self.activity = "measuring the final strength"
        self.show(at_once=True)
        try:
            return {**summary, **self.conclude(self.measure(self.positions, SIMULATIONS), step)}
        except StoppedError:
            return summary

    def close(self) -> None:
        """Ends the threads, and brings records and metrics to the disk."""
        self.training.close()
        self._pool.shutdown()
        self._arena.close()
        self.elo.close()
        try:
            self.games.log.close()
        except OSError as error:
            self.log(f"the record log could not be written to the end: {error}")
        self.metrics.close()
        self.trackers.close(self.is_over())
        self.control.close()

    # --- parts -------------------------------------------------------------------------------------------------------

    def _counts(self) -> dict[str, Any]:
        """What the progress keeps, as of now; Redis has no part in such a run."""
        return {"evaluations": self.evaluations, "lost_games": self.lost_games, "replay": {}}

    def _describe(self) -> dict[str, Any]:
        """What a checkpoint keeps for us."""
        progress = replace(self.progress, seconds=self.seconds, **self._counts())
        return {"config": self.directory.config_text, "progress": asdict(progress)}

    def _load_weights(self, weights: Weights) -> None:
        """Gives self-play what was published, or with a gate the best version."""
        self._arena.offer(weights, self.seconds)
        if self.gatekeeper is not None:
            self.gatekeeper.offer(weights)
            assert self.gatekeeper.best is not None
            weights = self.gatekeeper.best
            self.buffer.record_version(weights.version)
        if self._opponents is not None:
            self._opponents.offer(weights)
            for pair in self.actors:
                assert isinstance(pair, PairedGames)
                pair.load(weights)
        elif weights.version != self._version_in_use:
            self._version_in_use = weights.version
            for evaluator in self.evaluators:
                evaluator.load(weights)

    def _play_for_ratings(self) -> None:
        """Games of the rater and of the gate, for their shares of the time."""
        if self._arena.plays:
            self.activity = "playing games for ratings"
        before = self.gatekeeper.best if self.gatekeeper else None
        self.elo.take(self._arena.play(self.seconds - self._seconds_before, self.show))
        if self.gatekeeper is not None and self.gatekeeper.best is not before and self.gatekeeper.best is not None:
            self._load_weights(self.gatekeeper.best)

    def _should_stop(self, actor: SelfPlay | PairedGames) -> bool:
        """In the thread of the actor, which asks for no other one's counters: no timing decides which one stops."""
        is_late = self.seconds >= self.config.run.minutes * 60
        return self.signals.should_stop() or is_late or self._has_made_its_share(actor)

    def _has_made_its_share(self, actor: SelfPlay | PairedGames) -> bool:
        limit = self.config.run.evaluations
        share = -(-(limit - self.progress.evaluations) // len(self.actors))
        return limit > 0 and actor.counters()["evaluations"] >= share

    def _shares(self) -> list[int]:
        """Rows that each actor brings in the next turn: what the steps until the next publication need."""
        if self.config.reinforce.enabled:
            return [1] * len(self.actors)  # a round of games
        learner, settings = self.config.learner, self.config.replay
        rows = max(1, round(learner.publish_every * learner.batch_size / settings.samples_per_position))
        missing = settings.minimum - self.buffer.stats().rows
        if missing > 0:
            rows = missing
        return [-(-min(rows, MAX_TURN_ROWS) // len(self.actors))] * len(self.actors)

    def _measure_if_due(self) -> None:
        if self.subset is None:
            return
        due = measurements_due(self.seconds / 60, self.config.strength.minutes)
        if due <= self.progress.measurements:
            return
        self.activity = "measuring the strength"
        self.show(at_once=True)
        simulations = self.config.strength.simulations
        try:
            strength = self.measure(self.subset, (simulations,))
        except StoppedError:
            return
        self.progress.measurements = due
        self.progress.strength.append((self.seconds, strength.searches[simulations].optimal))
        self.metrics.write_strength(strength, "strength", self.training.learner.step_count, self.seconds)

    def measure(self, positions: StrengthSet, simulations: tuple[int, ...]) -> Strength:
        """The share of optimal moves of what the evaluators hold now; StoppedError when the run is told to stop."""
        return measure(positions, self.evaluators, self.config.search, simulations,
                       should_stop=self.signals.should_stop)

    # --- what is shown -----------------------------------------------------------------------------------------------

    def view(self) -> RunView:
        """The run at this moment."""
        report, totals = self.take(self.training.report()), self._totals()
        return RunView(
            seconds=self.seconds, activity=self.activity, version=self.training.versions.newest, totals=totals,
            games=self.games.stored or report.replay.games * bool(self.config.dataset.records),
            rows=report.replay.inserted, report=report, faults=self.faults.totals,
            quarantined=sum(report.replay.quarantined.values()), lost_games=self.lost_games,
            troubles=(*self.disk_troubles, *self._arena.troubles, *self._pool_troubles()),
            strength=tuple(self.progress.strength), elo=self.rated_versions,
            resign_value=self.keep_resign_value(actor.resign_value for actor in self.actors),
            runtimes=tuple(actor.description for actor in self.actors[:1]),
            pending_rows=totals["rows"] - self._rows_in_window)

    def _pool_troubles(self) -> list[str]:
        return [self._opponents.trouble] if self._opponents is not None and self._opponents.trouble else []

    def identify(self) -> dict[str, Any]:
        """This process, which is all workers in one."""
        return {"host": platform.node(), "driver": os.getpid(), "run_dir": str(self.directory.path.resolve()),
                "precision": self._precision,
                "roles": {"process": {"alive": 1, "desired": 1}}}

    def _totals(self) -> Counter[str]:
        return sum((Counter(counts) for actor in self.actors for counts in (actor.counters(), actor.timer.counters())),
                   Counter())
