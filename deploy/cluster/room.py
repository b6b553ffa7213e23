"""Which node the next self-play actor goes to, and how many actors fit on the nodes of the cluster as it is now."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

TINY = 1e-9  # three shares of a third are a whole


@dataclass(frozen=True)
class Node:
    """A living node, as far as placing actors asks for it."""

    id: str
    cpus: float
    gpus: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    host: str = ""  # its address, for people


@dataclass(frozen=True)
class Room:
    """The nodes on which actors may run, and the rule by which they fill them.

    The nodes without a GPU and without the driver come first, for servers and the learner have work for the CPUs of the
    others.  Among equal ones the emptiest is next; if nodes can go away, the fullest with room: `scale` to fewer actors
    takes the youngest away, and so empties whole nodes.
    """

    nodes: tuple[Node, ...]
    cpus_per_actor: float
    own_node: str = ""  # id of the driver's
    growing_cpus: float = 0.0  # that an autoscaler may bring in all; 0: there is none, and no node goes away

    @property
    def fit(self) -> int:
        """Actors that fit now."""
        return sum(map(self._most_on, self.nodes))

    @property
    def most(self) -> int:
        """Actors that fit once the cluster has grown as far as it may."""
        return max(self.fit, math.floor(self.growing_cpus / self.cpus_per_actor + TINY))

    def place(self, taken: Mapping[str, int], avoided: Collection[str] = ()) -> str | None:
        """Returns the id of the node for one more actor, beside those in `taken` by node; None if no node has room."""
        with_room = [node for node in self.nodes
                     if node.id not in avoided and self._most_on(node) > taken.get(node.id, 0)]
        if not with_room:
            return None
        return min(with_room, key=lambda node: self._order(node, taken.get(node.id, 0))).id

    def _most_on(self, node: Node) -> int:
        return math.floor(node.cpus / self.cpus_per_actor + TINY)

    def _order(self, node: Node, actors: int) -> tuple[bool, int, str]:
        has_other_work = node.gpus > 0 or node.id == self.own_node
        free = self._most_on(node) - actors
        return has_other_work, -actors if self.growing_cpus else -free, node.id


def with_label(nodes: Iterable[Node], where: str) -> tuple[Node, ...]:
    """The nodes that have the label `where`, as `label:value`; all if it is empty."""
    label, _, value = where.partition(":")
    return tuple(node for node in nodes if not where or node.labels.get(label) == value)
