"""`shusaku train`: the system on Ray and Redis.  The driver wires, supervises, broadcasts weights, and shows the run.

Nothing here plays or learns: actors, learner, servers and evaluator are Ray actors around the plain classes that
`shusaku local` uses too.  What crosses between them is in `common.messages`; who is started again is decided by
`deploy.supervisor`.
"""

import contextlib
import os
import time
from dataclasses import replace
from typing import Any

import psutil
import ray

from actors.remote import ActorPlan, EvaluatorActor, InferenceServerActor, SelfPlayActor
from actors.strength import measure_baselines
from actors.strength_sets import strength_set
from common._core import Game
from common.config import Config
from common.errors import ResumeError, UsageError
from common.messages import Weights
from common.metrics import MetricsSink
from common.weights import load_weights, random_weights
from deploy.actor_totals import ActorTotals
from deploy.broadcast import Broadcast
from deploy.cluster_layout import actor_seed, layout_of, plain
from deploy.cluster_progress import ClusterProgress
from deploy.console import Console
from deploy.local_checkpoint import config_hash
from deploy.measurements import write_strength
from deploy.ray_session import RaySession
from deploy.ray_workers import RayRole, RayWorker, cause_of
from deploy.replay_store import ReplayStore
from deploy.run_directory import RunDirectory
from deploy.run_identity import RunIdentity, RunProgress
from deploy.stop_signals import StopSignals
from deploy.strength_meter import StrengthMeter
from deploy.strength_table import strength_table
from deploy.supervisor import Supervisor
from learner.checkpoints import load_latest
from learner.remote import LearnerActor, LearnerPlan
from learner.training import TrainingReport
from replay.redis_client import ReplayUnavailable
from replay.redis_control import RedisControl

TICK_SECONDS = 0.2  # of the driver's loop
TEND_SECONDS = 1.0  # between looks at Redis: requests, heartbeats, status
SAVE_SECONDS = 5.0  # between two notes of the progress; what a kill of the driver costs in counted time
WRITE_SECONDS = 10.0  # between two lines of metrics
CLOSE_SECONDS = 2.0  # that those have which need not save anything
END_SECONDS = 15.0  # that workers have to end by themselves
EVALUATOR_NICE = 19


class ClusterRun:
    """One life of the driver; see `deploy.train` for its course."""

    def __init__(
        self,
        config: Config,
        directory: RunDirectory,
        identity: RunIdentity,
        signals: StopSignals,
        session: RaySession,
        console: Console,
    ) -> None:
        self.config, self.directory, self.signals = config, directory, signals
        self.session, self.console = session, console
        self.game = Game(config.game.name, config.game.params)
        self.identity = identity
        self.progress_state = RunProgress.load(directory.path)
        self.store = ReplayStore(config, directory.path, self.identity.run_id, console.say)
        self.supervisor = Supervisor()
        self.totals = ActorTotals()
        self.positions = strength_set(self.game.name) if config.strength.enabled else None
        self.report: TrainingReport | None = None  # newest of the learner
        self.activity = "starting"
        self.first_game_seconds: float | None = None  # since the command began
        self.is_replay_answering = True
        self.was_asked_to_stop = False
        self._clock_began: float | None = None
        self._tended = self._saved = self._written = float("-inf")

    # --- the course of a run -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Redis, the layout, the run's keys, the workers; UsageError where something does not fit."""
        config = self.config
        load_latest(self.directory.checkpoints)  # ResumeError before anything is started where none is good
        self.layout = layout_of(config, self.session.num_cpus, self.session.num_gpus)
        self.actors = self.layout.actors
        control = self.store.start("" if self.session.is_local else self.session.own_address)
        epoch = self.identity.next_epoch(control.newest_epoch())
        self.epoch = epoch
        self.broadcast = Broadcast(self.supervisor, self.layout.placement)
        self.meter = StrengthMeter(self)

        def begin(control: RedisControl) -> None:
            limit = config.replay.minimum if config.learner.enabled else -1  # until the learner says more
            control.begin(
                epoch, capacity=config.replay.capacity, max_bytes=config.replay.megabytes << 20, actors=self.actors,
                limit=limit,
            )
            control.forget_actors()  # of earlier lives
            if self.broadcast.version:
                control.note_version(self.broadcast.version)

        self.store.begin(begin)
        self._employ()
        self.sink = MetricsSink(self.directory.path)
        self.progress = ClusterProgress(self)

    def train(self) -> None:
        """Until the time is used up or somebody stops the run."""
        if not self.config.learner.enabled:
            self.broadcast.adopt(self._weights_without_learner())
        while not self.is_over() and not self.signals.should_stop() and not self.was_asked_to_stop:
            self.tick()
            time.sleep(TICK_SECONDS)
        self._stop_clock()

    def tick(self) -> None:
        """One look at everything; short, and never waits for a worker."""
        now = time.monotonic()
        if now - self._tended >= TEND_SECONDS:
            self._tended = now
            self._tend()
        self.supervisor.reconcile()
        for event in self.supervisor.events():
            self.console.say(f"{event.role} {event.index} {event.text}")
            self._raise_if_hopeless()
        self._hear_learner()
        self.broadcast.deliver()
        self.meter.tick(self._clock_began is not None)
        self._start_clock()
        self.progress.show(self.console)
        if now - self._written >= WRITE_SECONDS and self._clock_began is not None:
            self._written = now
            self.progress.write(self.sink)
        if now - self._saved >= SAVE_SECONDS:
            self._saved = now
            self.save_progress()

    def end_workers(self) -> None:
        """Learner (with its last checkpoint), actors and servers end; the evaluator stays for the last measurement."""
        self.activity = "saving and ending"
        self.progress.show(self.console)
        names = ("learner", "self_play", "inference")
        with contextlib.suppress(ReplayUnavailable):
            self.store.control.request_stop()
        self.supervisor.stop_all(names)
        deadline = time.monotonic() + END_SECONDS
        while not self.supervisor.all_ended(names) and time.monotonic() < deadline:
            self._hear_learner()
            time.sleep(0.05)
        self._hear_learner()
        self.save_progress()

    def finish(self) -> dict[str, Any]:
        """The full table, strength.json and strength.png at the end of a run."""
        counters = self.totals.total
        summary: dict[str, Any] = {
            "run_dir": str(self.directory.path), "seconds": round(self.seconds, 1),
            "games": self.totals.accepted, "rows": self.totals.rows,
            "searches": counters.get("searches", 0),
            "steps": self.report.step if self.report else 0,
            "version": self.broadcast.version, "restarts": self.progress_state.restarts,
            "first_game_seconds": self.first_game_seconds,
        }
        if self.positions is None or not self.config.strength.final or not self.config.learner.enabled:
            return summary
        if not self.is_over():
            return summary
        self.activity = "measuring the final strength"
        strength = self.meter.final()
        if strength is None:
            return summary
        strength = replace(strength, baselines=measure_baselines(self.positions))
        self.meter.note(strength, "final_strength", self.seconds)  # of the whole set: no point of the curve
        self.sink.close()
        write_strength(strength, self.directory.path, self.game.name)
        self.console.say(strength_table(strength))
        self.console.say(f"the run is complete; {self.directory.path}/strength.png shows the strength over time, "
                         f"and a larger run.minutes trains on")
        return {**summary, **strength.to_json()}

    def close(self) -> None:
        """Ends everything that is still there, the own server last."""
        self.supervisor.stop_all()
        deadline = time.monotonic() + CLOSE_SECONDS
        while not self.supervisor.all_ended() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.supervisor.kill_all()
        if hasattr(self, "sink"):
            self.sink.close()
        self.store.stop()

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Training time of the run directory, summed over resumes."""
        since = 0.0 if self._clock_began is None else time.monotonic() - self._clock_began
        return self.progress_state.seconds + since

    def is_over(self) -> bool:
        return self.seconds >= self.config.run.minutes * 60

    def save_progress(self) -> None:
        """What a killed driver would have to know; a full disk is said, and nothing more."""
        state = replace(
            self.progress_state, seconds=self.seconds,
            restarts=self.progress_state.restarts + self.supervisor.restarts,
        )
        try:
            state.save(self.directory.path)
        except OSError as error:
            self.console.say(f"the progress could not be written: {error}")

    def _start_clock(self) -> None:
        if self._clock_began is None and self.totals.total.get("simulations", 0) > 0:
            self._clock_began = time.monotonic()
            self.activity = "playing and learning" if self.config.learner.enabled else "playing"

    def _stop_clock(self) -> None:
        self.progress_state.seconds, self._clock_began = self.seconds, None

    # --- the workers -------------------------------------------------------------------------------------------------

    def _employ(self) -> None:
        """Tells the supervisor who is wanted."""
        config, epoch = plain(self.config), self.epoch
        home = ray.get_runtime_context().get_node_id()
        digest = config_hash(self.config)
        run_id = self.identity.run_id
        cores = len(os.sched_getaffinity(0))
        games = config.actors.games_per_actor

        def actor_plan(index: int, incarnation: int) -> tuple[ActorPlan]:
            seed = actor_seed(config.run.seed, epoch, index, incarnation)
            return (ActorPlan(config, digest, index, epoch, incarnation, seed, games, self.store.actor_url, run_id,
                              self.layout.placement == "server"),)

        def learner_plan(index: int, incarnation: int) -> tuple[LearnerPlan]:
            threads = config.learner.threads or max(1, cores - self.actors)
            return (LearnerPlan(config, digest, epoch, incarnation, str(self.directory.path.resolve()),
                                self.store.url, run_id, threads),)

        if config.learner.enabled:
            gpus = 1.0 if config.learner.device == "cuda" else 0.0
            self.supervisor.employ(RayRole("learner", LearnerActor, learner_plan, epoch, gpus=gpus, node=home), 1)
        if self.layout.placement == "server":
            sizes = list(self.layout.sizes)
            gpus = 1.0 if config.inference.device == "cuda" else 0.0
            role = RayRole("inference", InferenceServerActor, lambda index, _: (config, index, sizes), epoch, gpus=gpus)
            self.supervisor.employ(role, config.inference.servers)
        self.supervisor.employ(
            RayRole("self_play", SelfPlayActor, actor_plan, epoch, cpus=config.actors.cpus, asks=False,
                    heard=self.totals.heard, before_start=self._fence),
            self.actors,
        )
        if self.positions is not None and config.learner.enabled:
            arguments = (config, EVALUATOR_NICE, cores)
            self.supervisor.employ(RayRole("evaluator", EvaluatorActor, lambda *_: arguments, epoch, node=home), 1)

    def _fence(self, actor: int, incarnation: int) -> None:
        with contextlib.suppress(ReplayUnavailable):  # its first game fences its forerunners anyway
            self.store.control.fence(actor, incarnation)

    def _raise_if_hopeless(self) -> None:
        """What the user got wrong is no death to recover from."""
        for crew in self.supervisor.crews.values():
            for slot in crew.slots.values():
                worker = slot.worker or slot.last
                failure = worker.failure if isinstance(worker, RayWorker) else None
                if isinstance(failure, UsageError | ResumeError):
                    cause = cause_of(failure)
                    raise (ResumeError if isinstance(failure, ResumeError) else UsageError)(str(cause)) from None

    # --- Redis -------------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Heartbeats, requests from other terminals, our status for them."""
        self.is_replay_answering = self.store.tend()
        if not self.is_replay_answering:
            self.totals.miss()
            return
        control = self.store.control
        try:
            self.totals.update(control.actor_figures(), control.counters())
            self.was_asked_to_stop |= control.is_stop_requested()
            desired = min(control.desired_actors() or self.actors, self.layout.max_actors)
            if desired != self.actors:
                self.console.say(f"actors: {self.actors} -> {desired}, as asked")
                self.actors = desired
                self.supervisor.scale("self_play", desired)
            control.put_status(self.progress.to_json())
        except ReplayUnavailable:
            self.is_replay_answering = False
        if self.first_game_seconds is None and self.totals.total.get("games", 0) > 0:
            self.first_game_seconds = round(time.time() - _process_started(), 1)
            self.console.say(f"the first game ended {self.first_game_seconds:.0f} s after the command")

    # --- weights -----------------------------------------------------------------------------------------------------

    def _hear_learner(self) -> None:
        worker = self.supervisor.worker("learner")
        report = worker.answer if isinstance(worker, RayWorker) else None
        if isinstance(report, TrainingReport) and report is not self.report:
            self.report = report
            for note in report.notes:
                self.console.say(note)
        self.broadcast.fetch(worker, self.report)

    def _weights_without_learner(self) -> Weights:
        """Of the run directory, else untrained ones."""
        path = self.directory.path / "weights.safetensors"
        if path.exists():
            weights = load_weights(path)
        else:
            weights = random_weights(self.game, self.config.network, self.config.run.seed, version=1)
        self.store.control.note_version(weights.version)
        return weights


def _process_started() -> float:
    """Unix time at which this process began."""
    began: float = psutil.Process().create_time()
    return began
