"""The nodes of the cluster, read again all the time, and the request for more of them."""

import contextlib
import threading
from typing import Any

import ray

from shusaku.deploy.cluster.room import Node
from shusaku.deploy.ray_runtime.living_nodes import living_nodes

READ_S = 1.0  # between two reads; one takes about a millisecond
PENDING = ("DEPENDENCIES_UNREADY", "PENDING_CREATION")
END_S = 2.0  # for Ray to hear that no node is needed any more


class NodeWatch:
    """A thread asks Ray, which may hang while its GCS is away; `nodes` is the newest answer.

    Ray's autoscaler hears how many actors are to play (`ray.autoscaler.sdk.request_resources`): it starts nodes for
    them, and lets those go on which nothing runs.
    """

    def __init__(self, cpus_per_actor: float, *, may_grow: bool) -> None:
        """`may_grow`: there is an autoscaler."""
        self.nodes = read_nodes()
        self._cpus, self._may_grow = cpus_per_actor, may_grow
        self._wanted = self._asked = 0
        self._asked_for: set[str] = set()  # actors whose state was asked for since the last read
        self._pending: frozenset[str] = frozenset()  # those of them that waited for a node then
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nodes", daemon=True)
        self._thread.start()

    def want(self, actors: int) -> None:
        """So many actors are to have room."""
        self._wanted = actors

    def is_pending(self, handle: Any) -> bool:
        """Whether the actor of this handle had no node yet when Ray was last asked."""
        actor: str = handle._actor_id.hex()
        self._asked_for.add(actor)
        return actor in self._pending

    def close(self) -> None:
        """Takes the request back, so that nodes can go."""
        self._wanted = 0
        self._closed.set()
        self._thread.join(END_S)

    def _run(self) -> None:
        while not self._closed.wait(READ_S):
            with contextlib.suppress(Exception):  # Ray's own: its GCS is away; the watch of its parts tells of an end
                self._ask()
                self.nodes = read_nodes()
                actors, self._asked_for = self._asked_for, set()
                self._pending = frozenset(filter(_is_pending, actors))
        with contextlib.suppress(Exception):
            self._ask()

    def _ask(self) -> None:
        wanted = self._wanted
        if self._may_grow and wanted != self._asked:
            from ray.autoscaler.sdk import request_resources

            request_resources(bundles=[{"CPU": self._cpus}] * wanted)
            self._asked = wanted


def _is_pending(actor: str) -> bool:
    entry = ray._private.state.actors(actor_id=actor)
    return entry.get("State") in PENDING and not entry["Address"]["IPAddress"]


def read_nodes() -> tuple[Node, ...]:
    """The living nodes of the cluster that Ray is connected to."""
    return tuple(map(_node, living_nodes()))


def _node(node: dict[str, Any]) -> Node:
    resources = node["Resources"]
    return Node(node["NodeID"], float(resources.get("CPU", 0)), float(resources.get("GPU", 0)),
                dict(node.get("Labels") or {}), node.get("NodeManagerAddress", ""))
