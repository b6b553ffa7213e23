"""Weights from the learner to the evaluating workers: the driver owns them, so they outlive every worker."""

import contextlib
from collections.abc import Callable
from typing import Any

import ray

from shusaku.actors.remote import ServerReport
from shusaku.common.errors import UsageError
from shusaku.common.messages import Weights
from shusaku.deploy.cluster.supervisor import Supervisor, Worker
from shusaku.deploy.cluster.workers import RayWorker
from shusaku.learner.opponent_pool import OpponentPool
from shusaku.learner.training_loop import TrainingReport


class Broadcast:
    """Fetches the published weights and hands them to each worker, one call at a time."""

    def __init__(
        self, supervisor: Supervisor, placement: str, admit: Callable[[Weights], Weights] = lambda weights: weights,
        pool: OpponentPool | None = None,
    ) -> None:
        """`placement`: actor or server; `admit`: what self-play is to use once these weights were published.

        `pool`: of the opponents of policy gradient, which the actors get, too.
        """
        self.weights: Weights | None = None  # that self-play uses
        self.reference: Any = None  # of these weights in Ray's object store
        self.published: Weights | None = None  # newest published; the same without a gate
        self.published_reference: Any = None
        self._supervisor, self._placement, self._admit = supervisor, placement, admit
        self.opponents: list[Any] = []  # references to the weights of the pool of policy gradient
        self._fetching: Any = None
        self._fetched_from: Worker | None = None
        self._pool = pool
        self._pool_references: dict[int, Any] = {}  # by version

    @property
    def version(self) -> int:
        """Version of the weights in use; 0 before the first."""
        return self.weights.version if self.weights else 0

    @property
    def step(self) -> int:
        """Gradient steps that made the weights in use; 0 before the first."""
        return self.weights.step if self.weights else 0

    def publish(self, weights: Weights | None) -> None:
        """Takes what was published, unless there is nothing or newer ones are known; self-play gets what it may use."""
        if weights is None or (self.published is not None and weights.version <= self.published.version):
            return
        self._read_pool()
        self.published, self.published_reference = weights, ray.put(weights)
        self.adopt(self._admit(weights))

    def adopt(self, weights: Weights | None) -> None:
        """Sends these weights from now on, unless there are none or newer ones are in use already."""
        if weights is not None and weights.version > self.version:
            self.weights = weights
            self.reference = self.published_reference if weights is self.published else ray.put(weights)

    def _read_pool(self) -> None:
        """A version joins before it is published, so the pool is known with it."""
        if self._pool is None:
            return
        references = {}
        for version in self._pool.versions():
            with contextlib.suppress(UsageError):  # a damaged one is passed over
                references[version] = self._pool_references.get(version) or ray.put(self._pool.load(version))
        self._pool_references = references
        self.opponents = list(references.values())

    def fetch(self, learner: Worker | None, report: TrainingReport | None) -> None:
        """Requests newly published weights from the learner; never waits."""
        if learner is not self._fetched_from:
            self._fetching, self._fetched_from = None, learner
        if not isinstance(learner, RayWorker):
            return
        known = self.published.version if self.published else self.version
        if self._fetching is None and report is not None and report.version > known:
            self._fetching = learner.handle.weights.remote()
        if self._fetching is not None and ray.wait([self._fetching], timeout=0)[0]:
            with contextlib.suppress(ray.exceptions.RayError):  # the supervisor handles the failure
                self.publish(ray.get(self._fetching))
            self._fetching = None

    def deliver(self) -> None:
        """Hands the newest weights to the workers that evaluate, and the ready servers to the actors."""
        if self.weights is None:
            return
        for worker in self._workers("inference" if self._placement == "server" else "self_play"):
            worker.delivery.offer(self.version, worker.handle.load, [self.reference, *self.opponents])
        if self._placement == "server":
            ready = [worker for worker in self._workers("inference")
                     if isinstance(worker.report, ServerReport) and worker.report.version >= 0]
            for worker in self._workers("self_play") if ready else ():
                worker.delivery.offer(ready, worker.handle.attach, [server.handle for server in ready])

    def _workers(self, name: str) -> list[RayWorker]:
        return [worker for _, worker in self._supervisor.workers(name) if isinstance(worker, RayWorker)]
