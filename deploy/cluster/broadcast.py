"""Weights from the learner to the evaluating workers: the driver owns them, so they outlive every worker."""

from dataclasses import dataclass
from typing import Any

import ray

from shusaku.actors.remote import ServerReport
from shusaku.common.messages import Weights
from shusaku.deploy.cluster.supervisor import Supervisor, Worker
from shusaku.deploy.cluster.workers import Delivery, RayWorker
from shusaku.learner.training_loop import TrainingReport


@dataclass
class Broadcast:
    """Fetches the published weights and hands them to each worker, one call at a time."""

    supervisor: Supervisor
    placement: str  # actor | server
    weights: Weights | None = None  # newest published
    reference: Any = None  # of these weights in Ray's object store

    def __post_init__(self) -> None:
        self._fetching: Any = None
        self._fetched_from: Worker | None = None
        self._deliveries: dict[int, Delivery] = {}  # by the identity of the worker

    @property
    def version(self) -> int:
        """Version of the newest weights; 0 before the first."""
        return self.weights.version if self.weights else 0

    @property
    def step(self) -> int:
        """Gradient steps that made the newest weights; 0 before the first."""
        return self.weights.step if self.weights else 0

    def adopt(self, weights: Weights) -> None:
        """Sends these weights from now on, unless newer ones are known already."""
        if weights.version > self.version:
            self.weights = weights
            self.reference = ray.put(weights)

    def fetch(self, learner: Worker | None, report: TrainingReport | None) -> None:
        """Requests newly published weights from the learner; never waits."""
        if learner is not self._fetched_from:
            self._fetching, self._fetched_from = None, learner
        if not isinstance(learner, RayWorker):
            return
        if self._fetching is None and report is not None and report.version > self.version:
            self._fetching = learner.handle.weights.remote()
        if self._fetching is not None and ray.wait([self._fetching], timeout=0)[0]:
            try:
                weights = ray.get(self._fetching)
                if weights is not None:
                    self.adopt(weights)
            except ray.exceptions.RayError:
                pass  # the supervisor handles the failure
            self._fetching = None

    def deliver(self) -> None:
        """Hands the newest weights to the workers that evaluate, and the ready servers to the actors."""
        if self.weights is None:
            return
        reference, version = self.reference, self.version
        for worker in self._workers("inference" if self.placement == "server" else "self_play"):
            self._delivery(worker).offer(version, worker.handle.load, [reference])
        if self.placement == "server":
            ready = [(replica, worker) for replica, worker in self.supervisor.workers("inference")
                     if isinstance(worker, RayWorker) and isinstance(worker.report, ServerReport)
                     and worker.report.version >= 0]
            key = tuple((replica.index, replica.incarnation) for replica, _ in ready)
            handles = [worker.handle for _, worker in ready]
            for worker in self._workers("self_play") if ready else ():
                self._delivery(worker).offer(key, worker.handle.attach, handles)
        alive = {id(worker) for name in ("inference", "self_play") for worker in self._workers(name)}
        self._deliveries = {key: delivery for key, delivery in self._deliveries.items() if key in alive}

    def _workers(self, name: str) -> list[RayWorker]:
        return [worker for _, worker in self.supervisor.workers(name) if isinstance(worker, RayWorker)]

    def _delivery(self, worker: RayWorker) -> Delivery:
        return self._deliveries.setdefault(id(worker), Delivery(worker))
