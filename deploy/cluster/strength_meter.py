"""Strength beside a cluster run: asks the evaluator when a measurement is due, and for the whole table at the end."""

import time
from collections.abc import Callable
from typing import Any

import ray

from shusaku.actors.arena.strength import SIMULATIONS, Strength
from shusaku.common.config.schema import StrengthConfig
from shusaku.deploy.cluster.broadcast import Broadcast
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.cluster.workers import RayWorker, first_line
from shusaku.deploy.run.measurements import measurements_due
from shusaku.deploy.run.run_identity import RunProgress

FINAL_SECONDS = 900.0  # that the whole table may take
TRIES = 3  # of the whole table
PAUSE_SECONDS = 30.0  # after a measurement that failed

Record = Callable[[Strength, str, int, float], None]  # strength, source, step of the weights, training seconds


class StrengthMeter:
    """At most one measurement is under way; if an evaluator dies, its successor is asked again."""

    def __init__(
        self, settings: StrengthConfig, supervisor: Supervisor, broadcast: Broadcast, progress: RunProgress,
        record: Record, log: Callable[[str], None],
    ) -> None:
        """`progress` knows which measurements were made; `record` writes one down."""
        self._settings, self._supervisor, self._broadcast = settings, supervisor, broadcast
        self._progress, self._record, self._log = progress, record, log
        self._measuring: tuple[Any, float, int, int] | None = None  # reference, training seconds, due then, step
        self._failures = 0  # in a row
        self._failed_at = float("-inf")

    def poll(self, seconds: float, is_training: bool) -> None:
        """Takes the measurement that is ready, and asks for the one that is due; never waits.

        `seconds`: training time so far.
        """
        evaluator = self._supervisor.worker("evaluator")
        if not isinstance(evaluator, RayWorker) or self._broadcast.weights is None:
            return
        if self._measuring is not None:
            if not ray.wait([self._measuring[0]], timeout=0)[0]:
                return
            call, measured_at, due, step = self._measuring
            strength, self._measuring = self._answer(call), None
            if strength is not None:
                self._progress.measurements = due
                self._progress.strength.append((measured_at, strength.searches[self._settings.simulations].optimal))
                self._record(strength, "strength", step, measured_at)
        due = measurements_due(seconds / 60, self._settings.minutes)
        is_pausing = time.monotonic() - self._failed_at < PAUSE_SECONDS
        if is_training and due > self._progress.measurements and not is_pausing:
            call = self._ask(evaluator, [self._settings.simulations], self._settings.positions)
            self._measuring = (call, seconds, due, self._broadcast.step)

    def measure_all(self, may_go_on: Callable[[], bool]) -> Strength | None:
        """The newest published weights over the whole set; None if it failed, or if `may_go_on` says no.

        `may_go_on` is called many times a second.
        """
        call: Any = None
        self._failures = 0
        deadline = time.monotonic() + FINAL_SECONDS
        while time.monotonic() < deadline and self._failures < TRIES and may_go_on():
            evaluator = self._supervisor.worker("evaluator")
            if isinstance(evaluator, RayWorker) and call is None:
                call = self._ask(evaluator, list(SIMULATIONS), 0)
            if call is not None and ray.wait([call], timeout=0.1)[0]:
                strength, call = self._answer(call), None
                if strength is not None:
                    return strength
            time.sleep(0.05)
        return None

    def _ask(self, evaluator: RayWorker, simulations: list[int], positions: int) -> Any:
        return evaluator.handle.measure.remote([self._broadcast.reference], simulations, positions)

    def _answer(self, reference: Any) -> Strength | None:
        try:
            strength: Strength | None = ray.get(reference)
            self._failures = 0
            return strength
        except ray.exceptions.RayError as error:
            self._failures, self._failed_at = self._failures + 1, time.monotonic()
            self._log(f"the strength could not be measured: {first_line(error)}")
            return None
