"""Ratings and the gate beside a cluster run: which worker is asked for which games, and what becomes of the answers.

At most one call of each kind is under way.  If its worker dies, the successor is asked after a pause; the run does not
notice more than that.
"""

import time
from collections.abc import Callable
from typing import Any

import ray

from shusaku.actors.arena.rating_log import EloCurve
from shusaku.common.messages import Weights
from shusaku.deploy.cluster.broadcast import Broadcast
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.cluster.workers import RayWorker, first_line
from shusaku.deploy.run.gatekeeper import Gatekeeper

PAUSE_SECONDS = 30.0  # after a call that failed


class _Call:
    """One call of a method of a worker at a time."""

    def __init__(self, supervisor: Supervisor, role: str, what: str, log: Callable[[str], None]) -> None:
        self._supervisor, self._role, self._what, self._log = supervisor, role, what, log
        self._reference: Any = None
        self._failed_at = float("-inf")
        self.has_failed = False  # the call before; until the next one is made

    @property
    def worker(self) -> RayWorker | None:
        """That can be called now; None while it is missing, asked already, or a call has failed a moment ago."""
        worker = self._supervisor.worker(self._role)
        is_free = self._reference is None and time.monotonic() - self._failed_at >= PAUSE_SECONDS
        return worker if is_free and isinstance(worker, RayWorker) else None

    def begin(self, reference: Any) -> None:
        """The call was made."""
        self._reference, self.has_failed = reference, False

    def take(self) -> Any:
        """The answer if there is one; None before, and if it failed."""
        if self._reference is None or not ray.wait([self._reference], timeout=0)[0]:
            return None
        reference, self._reference = self._reference, None
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            self._failed_at, self.has_failed = time.monotonic(), True
            self._log(f"{self._what}: {first_line(error)}")
            return None


class RaterCalls:
    """Has the newest version rated when the one before is done."""

    def __init__(
        self, supervisor: Supervisor, broadcast: Broadcast, take: Callable[[EloCurve | None], None],
        log: Callable[[str], None],
    ) -> None:
        self._broadcast, self._take, self._log = broadcast, take, log
        self._call = _Call(supervisor, "evaluator", "a version could not be rated", log)
        self._asked = 0  # newest version that was
        self._trouble = ""

    def poll(self, seconds: float) -> None:
        """Takes the ratings that are ready, and asks for the next; never waits.  `seconds`: training time so far."""
        answer = self._call.take()
        if answer is not None:
            curve, trouble = answer
            self._take(curve)
            if trouble and trouble != self._trouble:
                self._log(f"rater: {trouble}")
            self._trouble = trouble
        worker, newest = self._call.worker, self._broadcast.published
        if worker is not None and newest is not None and (newest.version > self._asked or self._call.has_failed):
            self._asked = newest.version
            self._call.begin(worker.handle.rate.remote([self._broadcast.published_reference], seconds))


class GateCalls:
    """Has the candidate that waits play, and gives self-play the one that has passed."""

    def __init__(
        self, supervisor: Supervisor, broadcast: Broadcast, gatekeeper: Gatekeeper, log: Callable[[str], None]
    ) -> None:
        self._broadcast, self._gatekeeper = broadcast, gatekeeper
        self._call = _Call(supervisor, "gate", "a candidate could not play, and will begin again", log)
        self._sent: tuple[Weights, Any] | None = None  # the candidate, and its reference

    def poll(self) -> None:
        """Takes the decision that is ready, and asks for the next; never waits."""
        result = self._call.take()
        if result is not None:
            self._gatekeeper.conclude(result)
            self._broadcast.adopt(self._gatekeeper.best)
        worker, match = self._call.worker, self._gatekeeper.next_match()
        if worker is None or match is None:
            return
        _, candidate = match
        if self._sent is None or self._sent[0] is not candidate:
            self._sent = candidate, ray.put(candidate)
        self._call.begin(worker.handle.play.remote([self._broadcast.reference], [self._sent[1]]))
