"""What a run is in both wirings: its clock, its progress, what it shows while it goes on, and what it leaves."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from shusaku.actors.arena.rating_log import EloPoint
from shusaku.actors.arena.strength import Strength
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.common.network.weights import load_weights, save_weights
from shusaku.common.resignation import NEVER_RESIGN, typical_resign_value
from shusaku.deploy.run.console import Console, Status
from shusaku.deploy.run.control_server import ControlServer
from shusaku.deploy.run.disk_troubles import DiskTroubles
from shusaku.deploy.run.elo_record import EloRecord
from shusaku.deploy.run.foreground_link import LINK, Ending
from shusaku.deploy.run.gatekeeper import Gatekeeper, is_gated
from shusaku.deploy.run.healing import heal_weights
from shusaku.deploy.run.measurements import conclude
from shusaku.deploy.run.network_growth import grow_checkpoint
from shusaku.deploy.run.network_stages import seconds_to_growth
from shusaku.deploy.run.old_formats import migrate_checkpoints
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.deploy.run.run_status import MetricsWriter, StatusBuilder, prometheus_metrics, status_tree
from shusaku.deploy.run.run_summary import totals_line
from shusaku.deploy.run.run_view import FaultCounter, RunView
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.deploy.run.trackers import MetricsFollower, check_trackers
from shusaku.deploy.run.unseen_table import measure_test_games, unseen_table
from shusaku.deploy.run.window_losses import window_losses, window_table
from shusaku.learner.checkpoints import WEIGHTS, go_back, published_weights
from shusaku.learner.training_loop import TrainingReport


def how_to_go_on(step: int, may_be_newer: bool = False) -> str:
    """From where a run goes on whose newest checkpoint is that of this step; 0: there is none."""
    if step == 0:
        return "the same command goes on"
    return f"the same command goes on from the checkpoint of step {step:,}{' or a newer one' if may_be_newer else ''}"


class TrainingRun(ABC):
    """One process that trains on a run directory; a wiring adds how it plays and learns."""

    def __init__(
        self, config: Config, directory: RunDirectory, signals: StopSignals, console: Console, show_seconds: float
    ) -> None:
        """`show_seconds`: time between two views."""
        self.config, self.directory, self.signals, self.console = config, directory, signals, console
        self.game = configured_game(config.game)
        migrate_checkpoints(directory.path, self.log)
        if config.resume_from >= 0:
            self._go_back(config.resume_from)
        grow_checkpoint(directory.path, config, self.game, self.log)
        self._grows_at = seconds_to_growth(config)
        # Gradient steps that the learner goes on from.
        self.resumed_step = heal_weights(directory.path, self.game, config.network, self.log)
        self.progress = RunProgress.load(directory.path)
        self.positions = strength_set(self.game) if config.strength.enabled else None
        self.metrics, self.troubles = MetricsWriter(directory.path, self.log), DiskTroubles(self.log)
        check_trackers(config.run.trackers)
        self.trackers = MetricsFollower(directory.path, config.run.trackers)
        self.elo = EloRecord(directory.path, config.experiment or self.game.name, self.metrics, self.log)
        self.gatekeeper: Gatekeeper | None = None  # self-play uses every version at once
        if is_gated(config):
            self.gatekeeper = Gatekeeper(config, directory.path, self.log, lambda: self.seconds)
        self.faults = FaultCounter()
        self.report: TrainingReport | None = None  # newest of the learner
        self.activity = "starting"
        self.has_learned = False  # a step in this process, which a stop must not lose
        self._first_step: int | None = None  # after which the learner goes on
        self._saved_step = -1  # of the newest checkpoint, as the learner said last
        self._status_builder = StatusBuilder(config, self.game, directory.path)
        self._show_seconds = show_seconds
        self._shown: tuple[RunView, Status] | None = None  # the newest
        self._began: float | None = None  # when training began in this process; the clock of `seconds`
        self._paused_at: float | None = None  # that clock stands still since then
        self._shown_at = self._saved_at = float("-inf")
        self.control = ControlServer(directory.path, config.run.http_port, self.log, signals.request,
                                     {"run": directory.path.resolve().name, "game": self.game.name})

    @abstractmethod
    def view(self) -> RunView:
        """The run at this moment."""

    @abstractmethod
    def identify(self) -> dict[str, Any]:
        """What `shusaku status` shows of this process beside the view; `roles`: how many workers of each live."""

    def _go_back(self, step: int) -> None:
        """Goes on with the network of that step, as the user asked."""
        path = self.directory.path
        checkpoint, later = go_back(path / "checkpoints", step)
        save_weights(path / WEIGHTS, published_weights(checkpoint, self.config.network, self.game))
        aside = f"; {', '.join(path.name for path in later)} are set aside" if later else ""
        self.log(f"resume_from={step}: learning goes back to step {step:,}, the games stay{aside}.  Leave resume_from "
                 "out to go on from here")

    @property
    def seconds(self) -> float:
        """Training time of the run directory, summed over resumes."""
        if self._began is None:
            return self.progress.seconds
        end = time.monotonic() if self._paused_at is None else max(self._began, self._paused_at)
        return self.progress.seconds + end - self._began

    @property
    def rated_versions(self) -> tuple[EloPoint, ...]:
        """Their ratings, as of the newest."""
        return self.elo.curve.points if self.elo.curve else ()

    @property
    def disk_troubles(self) -> tuple[str, ...]:
        """What cannot be written now."""
        saving = (self.report.trouble,) if self.report and self.report.trouble else ()
        gate = self.gatekeeper.troubles.lines if self.gatekeeper else ()
        return (*self.troubles.lines, *self.metrics.troubles.lines, *self.trackers.troubles, *gate, *saving)

    def is_over(self) -> bool:
        """Whether the run is to end."""
        return self.seconds >= self.config.run.minutes * 60 or 0 < self.config.learner.steps <= self.steps_made

    @property
    def has_to_grow(self) -> bool:
        """Whether it goes on in a larger network, which the same command begins with."""
        return self.seconds >= self._grows_at and not self.is_over() and not self.is_stopping()

    def is_stopping(self) -> bool:
        """Whether it ends before its time."""
        return self.signals.should_stop()

    @property
    def steps_made(self) -> int:
        """Gradient steps over the life of the run, as the learner said last."""
        return self.report.step if self.report else self.resumed_step

    def pause_clock(self, is_paused: bool) -> None:
        """Stops the training clock, or lets it go on."""
        now = time.monotonic()
        if is_paused and self._paused_at is None:
            self._paused_at = now
        elif not is_paused and self._paused_at is not None:
            if self._began is not None:
                self._began += now - max(self._began, self._paused_at)
            self._paused_at = None

    def show(self, at_once: bool = False) -> tuple[RunView, Status]:
        """Looks at the run if the last look was long ago, or `at_once`, and shows it; the newest view and status."""
        now = time.monotonic()
        if at_once or self._shown is None or now - self._shown_at >= self._show_seconds:
            self._shown_at = now
            view = self.view()
            self._shown = view, self._status_builder.build(view)
            self.control.publish(self.status_tree(), prometheus_metrics(*self._shown))
            self.console.show(self._shown[1])
        return self._shown

    def status_tree(self) -> dict[str, Any]:
        """For `shusaku status` in another terminal, as of the newest view."""
        assert self._shown is not None
        return status_tree(*self._shown, {**self.identify(), "has_begun": self._began is not None})

    def log(self, line: str) -> None:
        """A line for the user that stays."""
        self.console.log(line)

    def take(self, report: TrainingReport) -> TrainingReport:
        """Keeps and returns the newest report of the learner; logs its notes."""
        self.faults.update(report)
        self.report = report
        if self._first_step is None:
            self._first_step = report.step
        elif report.step > self._first_step and not self.has_learned:
            self.has_learned = True
            LINK.expect(Ending.WITH_CHECKPOINT)
        if report.saved_step != self._saved_step:
            self._saved_step = report.saved_step
            LINK.say_how_to_go_on(how_to_go_on(report.saved_step, may_be_newer=True))
        for note in report.notes:
            self.log(note)
        return report

    def keep_resign_value(self, values: Iterable[float]) -> float:
        """The threshold of these batches of games, which a restart begins with; that of before if none has one yet."""
        now = typical_resign_value(values)
        if now > NEVER_RESIGN:
            self.progress.resign_value = now
        return self.progress.resign_value if self.config.self_play.resign_errors else NEVER_RESIGN

    def save_progress(self, **counts: Any) -> None:
        """What a kill would lose, with these counts of now; a full disk is logged, and nothing more."""
        self._saved_at = time.monotonic()
        with self.troubles.watch("the progress"):
            replace(self.progress, seconds=self.seconds, **counts).save(self.directory.path)

    def summarize(self, steps: int, **more: Any) -> dict[str, Any]:
        """Logs the totals of the run since its beginning; returns them, and `more`, for `--json`."""
        self.activity = "trained" if self.is_over() else "growing" if self.has_to_grow else "stopped"
        view, _ = self.show(at_once=True)
        totals = {"games": view.games, "rows": view.rows, "steps": steps}
        if not self.has_to_grow:
            self.log(totals_line(self.directory.path, self.seconds, self.config.run.minutes,
                                 wanted_steps=self.config.learner.steps, **totals))
        losses = window_losses(self.report)
        if losses:
            self.log(window_table(losses))
            self.metrics.write(*self.show(at_once=True))
        return {"run_dir": str(self.directory.path), "seconds": round(self.seconds, 1), **totals,
                "version": view.version, **({"losses": losses} if losses else {}), **more}

    def conclude_unseen(self) -> dict[str, Any]:
        """Measures what was published last on the test games of the dataset; writes, logs and returns the result.

        Nothing if the run learns from its own games, or is not over.
        """
        path = self.directory.path / WEIGHTS
        if not (self.config.dataset.records and self.is_over() and path.exists()):
            return {}
        self.activity = "measuring on the test games"
        self.show(at_once=True)
        weights = load_weights(path)
        measured = {"validation": dict(self.report.unseen)} if self.report and self.report.unseen else {}
        measured["test"] = measure_test_games(self.config, self.game, weights)
        self.metrics.write_unseen("final_unseen", measured["test"], weights.step, self.seconds)
        self.log(unseen_table(measured))
        return {"unseen": measured}

    def conclude(self, strength: Strength, step: int) -> dict[str, Any]:
        """Writes and logs the final strength, of the weights of that step; returns it for `--json`."""
        assert self.positions is not None
        # Of the whole set, so no point of the curve.
        self.metrics.write_strength(strength, "final_strength", step, self.seconds)
        return conclude(strength, self.positions, self.directory.path, self.log).to_json()
