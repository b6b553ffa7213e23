"""The nodes that self-play actors of a run go to: as they are now, and as an autoscaler may make them."""

import time
from collections import Counter

from shusaku.common.config.schema import ActorsConfig
from shusaku.deploy.cluster.node_watch import NodeWatch
from shusaku.deploy.cluster.room import Room, with_label
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.cluster.workers import AVOIDED_SECONDS, RayWorker

GROUP = "self_play"


class ActorPlaces:
    """Places one actor after the other; `watch` keeps knowing the nodes."""

    def __init__(
        self, config: ActorsConfig, supervisor: Supervisor, watch: NodeWatch, own_node: str, growing_cpus: float
    ) -> None:
        """`own_node`: id of the driver's; `growing_cpus`: that the autoscaler may bring in all, 0 without one."""
        self._config, self._supervisor, self._watch = config, supervisor, watch
        self._own_node, self._growing_cpus = own_node, growing_cpus

    @property
    def most(self) -> int:
        """Actors that fit on the cluster, once it has grown as far as it may."""
        return self._room().most

    def place(self) -> str | None:
        """Returns the id of the node for one more actor; None if it has to wait for one."""
        group = self._supervisor.groups[GROUP]
        workers = [worker for _, worker in self._supervisor.workers(GROUP) if isinstance(worker, RayWorker)]
        lost = [r.previous_worker for r in group.replicas.values() if isinstance(r.previous_worker, RayWorker)]
        now = time.monotonic()
        avoided = {worker.node for worker in lost
                   if worker.cut_off_at is not None and now - worker.cut_off_at < AVOIDED_SECONDS}
        return self._room().place(Counter(worker.node for worker in workers if worker.node), avoided)

    def _room(self) -> Room:
        nodes = with_label(self._watch.nodes, self._config.where)
        return Room(nodes, self._config.cpus, self._own_node, self._growing_cpus)
