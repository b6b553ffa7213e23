"""`shusaku train`: the system on Ray and Redis.  The driver wires, supervises, broadcasts weights, and shows the run.

Nothing here plays or learns: actors, learner, servers and evaluator are Ray actors around the plain classes that
`shusaku local` uses too.  What crosses between them is in `common.messages`; who is started again is decided by
`deploy.cluster.supervisor`.
"""

import contextlib
import json
import time
from dataclasses import replace
from typing import Any

import psutil
import ray

from shusaku.common.config.schema import Config
from shusaku.common.errors import ResumeError, RunError, UsageError
from shusaku.common.messages import Weights
from shusaku.common.network.weights import load_weights, random_weights
from shusaku.common.ray_metrics import RayMetrics
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.common.tls.authority import RunAuthority
from shusaku.deploy.cluster.actor_count import ActorCount
from shusaku.deploy.cluster.actor_places import ActorPlaces
from shusaku.deploy.cluster.actor_totals import ActorTotals
from shusaku.deploy.cluster.arena_calls import GateCalls, RaterCalls
from shusaku.deploy.cluster.broadcast import Broadcast
from shusaku.deploy.cluster.layout import layout_of
from shusaku.deploy.cluster.node_watch import NodeWatch
from shusaku.deploy.cluster.open_games import OpenGamesNews
from shusaku.deploy.cluster.outages import Outage, is_well, list_troubles
from shusaku.deploy.cluster.replay_store import ReplayStore, saved_holdings
from shusaku.deploy.cluster.roles import make_roles
from shusaku.deploy.cluster.status import count_roles, list_processes, list_runtimes, view_workers
from shusaku.deploy.cluster.strength_meter import StrengthMeter
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.cluster.workers import RayWorker, cause_of
from shusaku.deploy.ray_runtime.autoscaler import growing_cpus
from shusaku.deploy.ray_runtime.node_check import StartCheck
from shusaku.deploy.ray_runtime.session import RaySession
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.change_over import move_to_stream
from shusaku.deploy.run.console import Console, Status
from shusaku.deploy.run.elo_record import is_rated
from shusaku.deploy.run.foreground_link import LINK
from shusaku.deploy.run.learner_start import load_learner_start
from shusaku.deploy.run.reinforce_start import keep_start, open_pool
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.deploy.run.run_status import prometheus_metrics
from shusaku.deploy.run.run_view import RunView
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.deploy.run.training_run import TrainingRun, how_to_go_on
from shusaku.deploy.run.value_policies import load_policies
from shusaku.learner.checkpoints import load_latest, newest_step
from shusaku.learner.training_loop import TrainingReport
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.control import RedisControl

TICK_SECONDS = 0.2  # of the driver's loop
CHECK_SECONDS = 1.0  # between looks at Redis: requests, heartbeats, status
SHOW_SECONDS = 0.5  # between two views
SAVE_SECONDS = 5.0  # between two saves of the progress; what a kill of the driver costs in counted time
WRITE_SECONDS = 10.0  # between two lines of metrics
CLOSE_SECONDS = 2.0  # that those have which need not save anything
END_SECONDS = 120.0  # that workers have to end by themselves,
HURRIED_SECONDS = 16.0  # if a signal wants an end within 25 s,
WITHOUT_RAY_SECONDS = 10.0  # if Ray has ended: the learner may still write a checkpoint
CLOSE_WITHOUT_RAY_SECONDS = 3.0  # and for what else is to be closed then
EARLY_SECONDS = 1.5  # and within 5 s, because nothing was learned yet


class ClusterRun(TrainingRun):
    """One life of the driver; see `deploy.commands.train` for its course."""

    def __init__(
        self, config: Config, directory: RunDirectory, identity: RunIdentity, signals: StopSignals, session: RaySession,
        console: Console, *, on_cpus: Config, precision: str = "",
    ) -> None:
        """`on_cpus`: the settings if no GPU evaluates, in which what was measured here takes the place of `auto`.

        `precision`: which one is taken, and why, if that was measured.
        """
        super().__init__(config, directory, signals, console, SHOW_SECONDS)
        self.identity, self.session = identity, session
        self._authority = RunAuthority() if "tls" in (config.replay.encryption, config.inference.encryption) else None
        self.store = ReplayStore(config, directory.path, identity.run_id, self.log, self._authority)
        self.supervisor = Supervisor(stuck_seconds=config.cluster.stuck_seconds)
        self._growing_cpus = 0.0  # that an autoscaler may bring in all
        if not session.is_local:
            self._growing_cpus = growing_cpus(config.cluster, session.address)
        self.watch = NodeWatch(config.actors.cpus, may_grow=self._growing_cpus > 0)
        self.outage = Outage()
        self.on_cpus, self.precision = on_cpus, precision
        self._start_check: StartCheck | None = None  # None: Ray was started here
        self._fatal_outage = ""  # why the run ended before its time
        self.totals = ActorTotals(counted=self.progress.counted, lost=self.progress.lost_counts)
        self._open_games = OpenGamesNews()
        self.first_game_seconds: float | None = None  # since the command began
        self.is_replay_answering = True
        self.quarantined = 0  # records, as Redis counts them
        self.was_asked_to_stop = False
        self._asked_actors = 0  # by `shusaku scale` over HTTP, or by `actors.count=auto`, until Redis has it too
        self._auto_count: ActorCount | None = None  # decides on the number of actors, until `shusaku scale` does
        self._checked = self._written = float("-inf")
        self._summary: dict[str, Any] = {}  # of the run when its workers have ended

    # --- the course of a run -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Redis, the layout, the run's keys, the workers; UsageError where something does not fit."""
        load_latest(self.directory.path / "checkpoints")  # ResumeError before anything is started if none is good
        gpus = self.session.num_gpus, self.session.own_gpus
        nodes, growing = self.watch.nodes, self._growing_cpus
        may_return = self.directory.is_resumed and not self.session.is_local
        self.layout = layout_of(self.config, nodes, *gpus, growing_cpus=growing, nodes_may_return=may_return)
        if self.layout.devices.inference == "cpu":
            self.layout = layout_of(
                self.on_cpus, nodes, *gpus, growing_cpus=growing, nodes_may_return=may_return)
            self.config = self.on_cpus
        self.config = config = self.layout.devices.settle(self.config)
        self.actors = self.layout.actors
        self.watch.want(self.actors)
        own_node = ray.get_runtime_context().get_node_id()
        self.places = ActorPlaces(config.actors, self.supervisor, self.watch, own_node, growing)
        if not (config.actors.count or self.session.is_local or config.dataset.records):
            self._auto_count = ActorCount(self.actors, time.monotonic())
        if self.session.num_gpus:
            self.log(f"devices: {self.layout.devices.reason}")
        keep_start(config, self.directory.path)
        control = self.store.start("" if self.session.is_local else self.session.own_address)
        if not self.session.is_local:
            self._start_check = StartCheck(self.store.actor_url)
            self._start_check.run()
        move_to_stream(self.directory.path, config, self.store.url, self.identity, self.log)
        epoch = self.identity.next_epoch(control.newest_epoch())
        self.broadcast = Broadcast(self.supervisor, self.layout.placement, self._admit,
                                   open_pool(config, self.directory.path) if config.reinforce.enabled else None)
        self.meter = StrengthMeter(config.strength, self.supervisor, self.broadcast, self.progress,
                                   self.metrics.write_strength, self.log)
        self.rater = RaterCalls(self.supervisor, self.broadcast, self.elo.take, self.log)
        self.gate = GateCalls(self.supervisor, self.broadcast, self.gatekeeper, self.log) if self.gatekeeper else None
        # Actors go on with these until the learner has read its window back.
        if self.gatekeeper is not None:
            self.broadcast.adopt(self.gatekeeper.best)
        self.broadcast.publish(self._saved_weights() if config.learner.enabled else self._weights_without_learner())

        def begin(control: RedisControl) -> None:
            limit = config.replay.minimum if config.learner.enabled else -1  # until the learner says more
            control.begin(
                epoch, capacity=config.replay.capacity, max_bytes=config.replay.megabytes << 20, actors=self.actors,
                limit=limit, fences={r.index: r.incarnation for r, _ in self.supervisor.workers("self_play")},
            )
            control.drop_actor_metrics()  # of earlier lives
            if self.broadcast.version:
                control.record_version(self.broadcast.version)

        self.store.begin(begin, saved_holdings(self.directory.path, self.progress))
        start = load_learner_start(config, self.directory.path)
        roles = make_roles(
            config, self.layout, epoch=epoch, run_id=self.identity.run_id, directory=self.directory.path,
            log_directory=self.session.log_directory, url=self.store.url, remote_url=self.store.remote_url,
            actor_url=self.store.actor_url,
            has_positions=self.positions is not None, actors=lambda: self.actors, seconds=lambda: self.seconds,
            resign_value=lambda: self.progress.resign_value, fence=self.fence, config_text=self.directory.config_text,
            place=self.places.place, is_pending=self.watch.is_pending, unheard_seconds=self.totals.unheard_seconds,
            policies=tuple(map(ray.put, load_policies(config, self.directory.path, self.log))),
            start=None if start is None else ray.put(start),
            authority=self._authority,
        )
        for role, count in roles:
            self.supervisor.register(role, count)
        self._prometheus = RayMetrics(self.identity.run_id, self.game.name)

    def train(self) -> None:
        """Until the time is used up, the network has to grow, or the run is stopped."""
        while not (self.is_over() or self.has_to_grow or self.is_stopping()):
            if self.outage.seconds > self.config.run.max_outage_minutes * 60:
                self._fatal_outage = self.outage.reason
                self.log(f"nothing could be learned for {self.config.run.max_outage_minutes:g} minutes: the run ends")
                break
            try:
                self.tick()
            except Exception:
                if not self.session.wait_for_failure(1.0):  # else it only says that Ray has ended
                    raise
            time.sleep(TICK_SECONDS)
        if self.session.failure:
            self.log(f"{self.session.failure}: the run ends")
        self.progress.seconds, self._began = self.seconds, None

    def tick(self) -> None:
        """One look at everything; short, and never waits for a worker."""
        now = time.monotonic()
        if self._start_check is not None:
            self._start_check.raise_refusal()
        if asked := self.control.take_actors():
            self._asked_actors, self._auto_count = asked, None
            self._scale_as_asked(asked)
        if now - self._checked >= CHECK_SECONDS:
            self._checked = now
            self._check_replay()
            if self.was_asked_to_stop:
                return  # before those who obey are taken for dead
        self.reconcile()
        self._check_outage()
        self._hear_learner()
        self.broadcast.deliver()
        if self.positions is not None:
            self.meter.poll(self.seconds, self._began is not None)
        if self._began is not None:
            if is_rated(self.config):
                self.rater.poll(self.seconds)
            if self.gate is not None:
                self.gate.poll()
        if self._began is None and self._has_begun():
            self._began = now
            self.directory.keep()
            playing = "playing and learning" if self.config.learner.enabled else "playing"
            self.activity = "learning" if self.config.dataset.records else playing
        view, status = self.show()
        self._adapt_actors(view, status)
        if now - self._written >= WRITE_SECONDS and self._began is not None:
            self._written = now
            self.metrics.write(view, status)
            self._prometheus.write(prometheus_metrics(view, status))
        if now - self._saved_at >= SAVE_SECONDS:
            self.save_progress(**self._counts())

    def _has_begun(self) -> bool:
        """Whether the training clock is to run: someone plays or, without actors, the learner has its games."""
        if self.config.dataset.records:
            return self.report is not None
        return self.totals.total.get("simulations", 0) > 0

    def reconcile(self) -> None:
        """Replaces who has died and says so; raises what the user got wrong, and where nothing helps."""
        self.supervisor.reconcile()
        for event in self.supervisor.take_events():
            self.log(event)
            self._raise_if_hopeless()

    def end_workers(self) -> None:
        """Learner (with its last checkpoint), actors and servers end; the evaluator stays for the last measurement."""
        self.activity = "saving and ending"
        self.show()
        self.store.expect_end()
        names = ("learner", "self_play", "inference", "gate")
        learner = self.supervisor.worker("learner")
        self.supervisor.stop_all(names)
        with contextlib.suppress(ReplayUnavailable):  # also to those who cannot be reached otherwise
            self.store.control.stop_actors()
        self._wait_for_end(names)
        if isinstance(learner, RayWorker):
            if not self.has_learned and learner.exit_reason() is None:
                pass  # it was still at its start, and there was no time to wait for that
            elif learner.exit_reason() is None or learner.failure is not None:
                step = self.report.saved_step if self.report else 0
                reason = learner.exit_reason() or "it did not end in time"
                self.log(f"the learner wrote no last checkpoint: {reason}; the newest is that of step {step:,}")
            elif isinstance(learner.result, TrainingReport):
                self.take(learner.result)
        with contextlib.suppress(ReplayUnavailable):
            self.totals.update(self.store.control.actor_metrics(), self.store.control.counters())
        self.hear_stop()
        self.save_progress(**self._counts())
        if self.gatekeeper is None:
            self.broadcast.publish(self._saved_weights())  # they may be newer than what was sent around
        step = self.report.step if self.report else self.broadcast.step
        self._summary = self.summarize(step, restarts=self.restarts, first_game_seconds=self.first_game_seconds)
        if self.is_over():
            self._summary |= self.conclude_unseen()

    def _wait_for_end(self, names: tuple[str, ...]) -> None:
        """Until these workers have ended, or as long as what asked for the end allows."""
        begun = time.monotonic()
        while not self.supervisor.all_ended(names):
            self.supervisor.poll()
            seconds = END_SECONDS
            if self.session.failure:
                seconds = WITHOUT_RAY_SECONDS if self._are_processes_left() else 0.0
            elif self.is_stopping():
                seconds = HURRIED_SECONDS if self.has_learned else EARLY_SECONDS
            if time.monotonic() - begun > seconds:
                break
            time.sleep(0.05)
        self.supervisor.poll()

    def hear_stop(self) -> None:
        """Looks for a `shusaku stop` of another machine; a replay server that does not answer ends nothing."""
        with contextlib.suppress(ReplayUnavailable):
            self.was_asked_to_stop |= self.store.control.is_run_stop_requested()

    def is_stopping(self) -> bool:
        """Whether Ray, a signal or the user ends it."""
        return bool(self.session.failure) or self.signals.should_stop() or self.was_asked_to_stop

    def _are_processes_left(self) -> bool:
        """Whether the learner's process lives, or may live on another node: without Ray its end is not reported."""
        pid = getattr(self.supervisor.worker("learner"), "pid", None)
        return pid is None or psutil.pid_exists(pid)

    def raise_if_ray_has_ended(self) -> None:
        """RunError that names the part and the checkpoint from which the same command goes on."""
        if self.session.failure:
            how = how_to_go_on(newest_step(self.directory.path / "checkpoints"))
            LINK.say_how_to_go_on(how)
            LINK.say_last_words(self.session.failure, CLOSE_WITHOUT_RAY_SECONDS)
            raise RunError(f"{self.session.failure}; {how}")

    def finish(self) -> dict[str, Any]:
        """The full table, strength.json and strength.png at the end of a run; RunError if an outage has ended it."""
        if self._fatal_outage:
            raise RunError(f"nothing could be learned for {self.config.run.max_outage_minutes:g} minutes, because of "
                           f"{self._fatal_outage}. The same command goes on from the newest checkpoint; "
                           "run.max_outage_minutes=N waits longer")
        can_measure = self.positions is not None and self.broadcast.weights is not None
        if not (can_measure and self.config.strength.final and self.config.learner.enabled and self.is_over()):
            return self._summary
        self.activity = "measuring the final strength"
        strength = self.meter.measure_all(self._may_go_on)
        return self._summary if strength is None else {**self._summary, **self.conclude(strength, self.broadcast.step)}

    def close(self) -> None:
        """Ends everything that is still there, the own server last."""
        if not self.session.failure:
            self._close_workers()
        self.elo.close()
        self.metrics.close()
        self.trackers.close(self.is_over())
        self.store.stop()
        self.control.close()

    def _close_workers(self) -> None:
        self.supervisor.stop_all()
        deadline = time.monotonic() + CLOSE_SECONDS
        while not self.supervisor.all_ended() and time.monotonic() < deadline:
            time.sleep(0.02)
            self.supervisor.poll()
        self.supervisor.kill_all()
        self.watch.close()

    @property
    def restarts(self) -> int:
        """Restarts of workers over the life of the run."""
        return self.progress.restarts + self.supervisor.restarts

    @property
    def lost_games(self) -> int:
        """Games that Redis had and has no more, over the life of the run."""
        return self.progress.lost_games + self.store.lost_games

    def _counts(self) -> dict[str, Any]:
        """What the progress keeps, as of now."""
        return {"restarts": self.restarts, "lost_games": self.lost_games, "replay": self.store.holdings._asdict(),
                "counted": dict(self.totals.counted), "lost_counts": dict(self.totals.lost)}

    # --- what is shown -----------------------------------------------------------------------------------------------

    def view(self) -> RunView:
        """The run now, as far as its workers have reported; it asks none of them."""
        troubles = [] if self.is_replay_answering else [
            f"replay: {self.store.trouble or 'no answer'}; finished games wait"]
        troubles += list_troubles(self.supervisor)
        fenced = self.report.replay.fenced_actors if self.report else {}
        learned = self.report.replay if self.report and self.config.dataset.records else None
        troubles += [f"actor {actor} was fenced: {reason}" for actor, reason in fenced.items()]
        return RunView(
            seconds=self.seconds, activity=self.activity, version=self.broadcast.version,
            games=learned.games if learned else self.totals.accepted,
            rows=learned.inserted if learned else self.totals.rows,
            totals={**self.totals.total, "rows": self.totals.rows}, report=self.report,
            faults=self.faults.totals, quarantined=self.quarantined, lost_games=self.lost_games,
            resumed_step=self.resumed_step, strength=tuple(self.progress.strength), elo=self.rated_versions,
            resign_value=self.keep_resign_value(
                float(metrics.get("resign_value", NEVER_RESIGN)) for metrics in self.totals.by_actor.values()),
            runtimes=list_runtimes(self.supervisor, self.totals), troubles=(*troubles, *self.disk_troubles),
            outage_seconds=self.outage.total_seconds + self.outage.seconds,
            workers=view_workers(self.supervisor, self.totals, self.store, self.actors))

    @property
    def most_actors(self) -> int:
        """Self-play actors that the run may have; none if it learns from finished games."""
        return 0 if self.config.dataset.records else self.places.most

    def identify(self) -> dict[str, Any]:
        """Driver, workers and limits of this run."""
        return {
            **self.store.identify(), "max_actors": self.most_actors, "devices": self.layout.devices.reason,
            "precision": self.precision, "dashboard": self.session.dashboard_url,
            "epoch": self.identity.epoch, "processes": list_processes(self.supervisor, self.store),
            "cpus_per_actor": self.config.actors.cpus, "first_game_seconds": self.first_game_seconds,
            "roles": count_roles(self.supervisor, self.store, self.is_replay_answering),
        }

    def _put_status(self) -> None:
        """For `shusaku status` on other machines; ReplayUnavailable if Redis does not take it."""
        self.show()
        control = self.store.control
        control.put_status(json.dumps({**self.status_tree(), "replay_time": control.server_time()}).encode())

    def _may_go_on(self) -> bool:
        """A round of the driver while the final strength is measured; False if it is to stop."""
        if self.is_stopping():
            return False
        self.reconcile()
        if time.monotonic() - self._checked >= CHECK_SECONDS:
            self._checked = time.monotonic()
            self.hear_stop()
            with contextlib.suppress(ReplayUnavailable):
                self._put_status()
        self.show()
        return not self.is_stopping()

    # --- the workers -------------------------------------------------------------------------------------------------

    def fence(self, actor: int, incarnation: int) -> None:
        """Games of earlier lives of the actor are refused from now on."""
        if self.is_replay_answering:
            with contextlib.suppress(ReplayUnavailable):  # its first game fences its forerunners anyway
                self.store.control.fence(actor, incarnation)

    def _check_outage(self) -> None:
        """The training clock and what depends on it stand still while a part is missing without which none learns."""
        missing = {} if self.is_replay_answering else {"replay": self.store.trouble or "no answer"}
        needed = ["self_play", *(name for name in ("learner", "inference") if name in self.supervisor.groups)]
        for name in needed if self._began is not None else ():
            group = self.supervisor.groups[name]
            if group.desired and not any(is_well(worker) for _, worker in self.supervisor.workers(name)):
                missing[name] = "none answers"
        self.supervisor.has_outage = bool(missing)
        line = self.outage.update(missing)
        if line:
            self.log(line)
        self.pause_clock(bool(missing))

    def _raise_if_hopeless(self) -> None:
        """What the user got wrong is no death to recover from.

        Where a worker of the same role has worked for a while, it was not the user: a GPU has gone, or a node that came
        later lacks something; the others go on.
        """
        for group in self.supervisor.groups.values():
            hopeless = ResumeError if group.has_lasted else (UsageError, ResumeError)
            for replica in group.replicas.values():
                for worker in (replica.previous_worker, replica.worker):
                    failure = getattr(worker, "failure", None)
                    if isinstance(failure, hopeless):
                        kind = ResumeError if isinstance(failure, ResumeError) else UsageError
                        raise kind(str(cause_of(failure))) from None

    # --- Redis -------------------------------------------------------------------------------------------------------

    def _check_replay(self) -> None:
        """Heartbeats, requests from other terminals, our status for them."""
        self.is_replay_answering = self.store.check_health()
        if not self.is_replay_answering:
            return
        control = self.store.control
        try:
            self.totals.update(control.actor_metrics(), control.counters())
            for line in self._open_games.take(self.totals.total, self.totals.by_actor.values()):
                self.log(line)
            self.hear_stop()
            self.quarantined = sum(control.quarantined().values())
            if self._auto_count is not None and control.has_user_set_actors():
                self._asked_actors, self._auto_count = 0, None
            if self._asked_actors:
                control.set_actors(self._asked_actors, by_user=False)
                self._asked_actors = 0
            self._scale_as_asked(control.desired_actors() or self.actors)
            self._put_status()
        except ReplayUnavailable as error:
            self.is_replay_answering = False
            self.store.trouble = str(error)
        if self.first_game_seconds is None and self.totals.total.get("games", 0) > 0:
            self.first_game_seconds = round(time.time() - psutil.Process().create_time(), 1)
            self.log(f"the first game ended {self.first_game_seconds:.0f} s after the command")
            for runtime in list_runtimes(self.supervisor, self.totals):
                self.log(f"network: {runtime}")

    def _scale_as_asked(self, asked: int) -> None:
        """By `shusaku scale`, whose number holds from then on."""
        desired = min(asked, max(self.actors, self.most_actors))
        if desired != self.actors:
            self._auto_count = None
            self._scale(desired, "as asked")

    def _adapt_actors(self, view: RunView, status: Status) -> None:
        """`actors.count=auto`: as many as learner and servers can take."""
        if self._auto_count is None or view.workers is None or self._began is None:
            return
        idle = view.workers.inference.get("idle_share")
        count = self._auto_count.decide(
            time.monotonic(), alive=view.workers.alive_actors, most=self.places.most,
            paused_share=status.paused_share, idle_share=idle)
        if count != self.actors:
            self._asked_actors = count
            self._scale(count, f"actors.count=auto; they pause {status.paused_share:.0%} of their time")

    def _scale(self, desired: int, why: str) -> None:
        self.log(f"actors: {self.actors} -> {desired}, {why}")
        self.actors = desired
        self.watch.want(desired)
        self.supervisor.scale("self_play", desired)

    # --- weights -----------------------------------------------------------------------------------------------------

    def _hear_learner(self) -> None:
        worker = self.supervisor.worker("learner")
        report = worker.report if isinstance(worker, RayWorker) else None
        if isinstance(report, TrainingReport) and report is not self.report:
            self.take(report)
        self.broadcast.fetch(worker, self.report)

    def _admit(self, weights: Weights) -> Weights:
        """What self-play is to use once these weights were published."""
        if self.gatekeeper is None:
            return weights
        self.gatekeeper.offer(weights)
        assert self.gatekeeper.best is not None
        return self.gatekeeper.best

    def _saved_weights(self) -> Weights | None:
        """What the run directory holds."""
        path = self.directory.path / "weights.safetensors"
        return load_weights(path) if path.exists() else None

    def _weights_without_learner(self) -> Weights:
        """The saved ones, else untrained ones."""
        config = self.config
        weights = self._saved_weights() or random_weights(self.game, config.network, config.run.seed, version=1)
        try:
            return with_scales(config.inference, self.game, config.network, weights)
        except RunError as refused:
            self.log(f"{refused}; the next best precision is used")
            return replace(weights, rejected=str(refused))
