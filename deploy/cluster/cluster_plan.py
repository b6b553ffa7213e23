"""Who would run where on a cluster, without starting anything: for `shusaku plan`."""

from collections import Counter
from collections.abc import Sequence

from shusaku.common.config.schema import Config
from shusaku.deploy.cluster.layout import Layout
from shusaku.deploy.cluster.room import TINY, Node, Room, with_label

WAITING = ""  # the key of those that would wait for a node


def who_runs_where(
    config: Config, nodes: Sequence[Node], layout: Layout, own_node: str, *, growing_cpus: float = 0.0
) -> dict[str, Counter[str]]:
    """Id of each node -> how many of each role; those that no node takes yet under WAITING.

    `own_node`: the driver's; `growing_cpus`: that an autoscaler may bring in all.  Ray decides among nodes with equal
    GPUs, so servers and a learner may also come to the others of these.
    """
    roles: dict[str, Counter[str]] = {name: Counter() for name in (*(node.id for node in nodes), WAITING)}
    free = {node.id: node.gpus for node in nodes}

    def place_on_gpu(role: str, gpus: float) -> None:
        most = max(free, key=lambda name: (free[name], name == own_node))
        name = most if free[most] + TINY >= gpus else WAITING
        roles[name][role] += 1
        if name != WAITING:
            free[name] -= gpus

    roles[own_node].update(["driver"])
    devices = layout.devices
    if config.learner.enabled:
        if devices.learner_is_here:
            roles[own_node]["learner"] += 1
            free[own_node] -= devices.learner_gpus
        else:
            place_on_gpu("learner", devices.learner_gpus)
    if layout.placement == "server" and layout.actors:
        for number in range(devices.servers):
            if devices.gpus_per_server > 0:
                place_on_gpu("inference server", devices.gpus_per_server)
            else:
                roles[nodes[number % len(nodes)].id]["inference server"] += 1
    room = Room(with_label(nodes, config.actors.where), config.actors.cpus, own_node, growing_cpus)
    taken: Counter[str] = Counter()
    for _ in range(layout.actors):
        name = room.place(taken) or WAITING
        taken[name] += 1
        roles[name]["actor"] += 1
    return {name: counts for name, counts in roles.items() if name != WAITING or counts}


def describe(nodes: Sequence[Node], roles: dict[str, Counter[str]]) -> list[str]:
    """A line for each node, and one for those that wait."""
    lines = []
    for node in nodes:
        gpus = f", {node.gpus:g} {'GPU' if node.gpus == 1 else 'GPUs'}" if node.gpus else ""
        cpus = f"{node.cpus:g} {'CPU' if node.cpus == 1 else 'CPUs'}"
        lines.append(f"node {node.host or node.id}: {cpus}{gpus}: {_roles(roles[node.id])}")
    if WAITING in roles:
        lines.append(f"waiting for a node: {_roles(roles[WAITING])}")
    return lines


def _roles(counts: Counter[str]) -> str:
    return ", ".join(role if role == "driver" or (role == "learner" and count == 1) else
                     f"{count:,} {role}{'' if count == 1 else 's'}" for role, count in counts.items()) or "none"
