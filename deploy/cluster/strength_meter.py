"""Strength beside a cluster run: asks the evaluator when a measurement is due, and for the whole table at the end."""

import time
from typing import TYPE_CHECKING, Any

import ray

from shusaku.actors.arena.strength import SIMULATIONS, Strength
from shusaku.common.messages import Metrics
from shusaku.deploy.cluster.workers import RayWorker, first_line
from shusaku.deploy.run.measurements import measurements_due, strength_figures

if TYPE_CHECKING:
    from shusaku.deploy.cluster.driver import ClusterRun

FINAL_SECONDS = 900.0  # that the whole table may take
TRIES = 3  # of the whole table
PAUSE_SECONDS = 30.0  # after a measurement that failed


class StrengthMeter:
    """At most one measurement is under way; a dead evaluator's is asked of its successor."""

    def __init__(self, run: "ClusterRun") -> None:
        self._run = run
        self._measuring: tuple[Any, float, int, int] | None = None  # reference, training seconds, due then, step
        self._failures = 0  # in a row
        self._failed_at = float("-inf")

    def tick(self, is_training: bool) -> None:
        """Takes in what is ready, and asks for what is due; never waits."""
        run, settings = self._run, self._run.config.strength
        evaluator = run.supervisor.worker("evaluator")
        if run.positions is None or not isinstance(evaluator, RayWorker) or run.broadcast.weights is None:
            return
        if self._measuring is not None:
            reference, seconds, due, step = self._measuring
            if not ray.wait([reference], timeout=0)[0]:
                return
            self._measuring = None
            strength = self._answer(reference)
            if strength is not None:
                run.progress_state.measurements = due
                share = strength.searches[settings.simulations].optimal
                run.progress_state.strength.append((seconds, share))
                self.note(strength, "strength", seconds, step)
        due = measurements_due(run.seconds / 60, settings.minutes)
        is_pausing = time.monotonic() - self._failed_at < PAUSE_SECONDS
        if is_training and due > run.progress_state.measurements and not is_pausing:
            call = evaluator.handle.measure.remote(
                [run.broadcast.reference], [settings.simulations], settings.positions
            )
            self._measuring = (call, run.seconds, due, run.broadcast.step)

    def final(self) -> Strength | None:
        """Of the newest published weights over the whole set; None when the run is told to stop meanwhile."""
        run = self._run
        call: Any = None
        self._failures = 0
        deadline = time.monotonic() + FINAL_SECONDS
        while not run.signals.should_stop() and time.monotonic() < deadline and self._failures < TRIES:
            run.reconcile()
            run.say_status()
            evaluator = run.supervisor.worker("evaluator")
            if isinstance(evaluator, RayWorker) and call is None:
                call = evaluator.handle.measure.remote([run.broadcast.reference], list(SIMULATIONS), 0)
            if call is not None and ray.wait([call], timeout=0.1)[0]:
                strength, call = self._answer(call), None
                if strength is not None:
                    return strength
            run.progress.show(run.console)
            time.sleep(0.05)
        return None

    def note(self, strength: Strength, source: str, seconds: float, step: int) -> None:
        try:
            self._run.sink.write(Metrics(step, seconds, source, strength_figures(strength)))
        except OSError as error:
            self._run.console.say(f"a measurement could not be written: {error}")

    def _answer(self, reference: Any) -> Strength | None:
        try:
            strength: Strength | None = ray.get(reference)
            self._failures = 0
            return strength
        except ray.exceptions.RayError as error:
            self._failures, self._failed_at = self._failures + 1, time.monotonic()
            self._run.console.say(f"the strength could not be measured: {first_line(error)}")
            return None
