"""On which nodes the ranks of a learner run, and with how many threads each."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class RankPlace(NamedTuple):
    """One rank's."""

    node: str  # id; empty: Ray chooses, by the GPU that it claims
    threads: int  # 0: as many as that node has cores


def rank_places(
    cpus: Mapping[str, float], own: str, ranks: int, *, on_gpus: bool, actors: int, cpus_per_actor: float,
    threads: int = 0,
) -> tuple[RankPlace, ...]:
    """Of all ranks in order; rank 0 is on the node `own`, empty: where Ray places the learner.

    On CPUs each further rank goes where the fewest share the cores.  `cpus`: of each node by its id; `actors`: spread
    evenly, their cores are left to them; `threads`: of each rank, if asked for.
    """
    if on_gpus:
        return (RankPlace(own, threads), *[RankPlace("", threads)] * (ranks - 1))
    nodes = [own]
    count = Counter(nodes)
    for _ in range(1, ranks):
        node = max(cpus, key=lambda name: (cpus[name] / (count[name] + 1), name == own, name))
        nodes.append(node)
        count[node] += 1
    places = []
    for node in nodes:
        cores = math.floor(cpus.get(node, 1.0))
        playing = min(math.floor(cores / cpus_per_actor), math.ceil(actors / max(1, len(cpus))))
        left = (cores - math.ceil(playing * cpus_per_actor)) // count[node]
        places.append(RankPlace(node, threads or max(1, left)))
    return tuple(places)
