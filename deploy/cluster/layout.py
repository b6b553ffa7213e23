"""Where each worker runs: the request of the configuration, checked against the resources that Ray has."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from shusaku.actors.evaluators.evaluator import LARGEST_BATCH
from shusaku.actors.pipelined_self_play import group_games
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.deploy.cluster.room import Node, Room, with_label
from shusaku.deploy.run.devices import Devices, devices_of

BATCHES_IN_FLIGHT = 3  # one is computed, one waits for the device, one is searched
FEWEST_GAMES = 16  # of an actor with actors.games_per_actor=auto, if it asks a server
LEAST = 8  # rows of the smallest batch
WASTE = 1 / 16  # of a batch on a GPU, at most, in rows that are computed for nothing; not of the smallest one


@dataclass(frozen=True)
class Layout:
    """The workers that are started."""

    actors: int
    placement: str  # actor | server
    games: int  # of each actor
    sizes: tuple[int, ...]  # batch sizes of a server
    devices: Devices


def layout_of(
    config: Config, nodes: Sequence[Node], gpus: float, here: float | None = None, growing_cpus: float = 0.0,
    *, nodes_may_return: bool = False,
) -> Layout:
    """The layout on these nodes, with `gpus` in all; UsageError, with the numbers, if it does not fit.

    `here`: how many of the GPUs are on the machine of the learner; None: all.  `growing_cpus`: that an autoscaler may
    bring in all.  `nodes_may_return`: of a run that goes on; actors without room wait for a node, as they do when one
    is lost during a run.

    Only self-play actors claim CPUs.  The claims of other jobs on the cluster are not known here: an actor without a
    free CPU waits for one.
    """
    players = with_label(nodes, config.actors.where)
    if not players and not growing_cpus and not nodes_may_return:
        labels = sorted({f"{name}:{value}" for node in nodes for name, value in node.labels.items()})
        raise UsageError(f"actors.where={config.actors.where}: no node of Ray has this label; there are: "
                         f"{', '.join(labels) or 'none'}")
    room = Room(players, config.actors.cpus, growing_cpus=growing_cpus)
    most = room.most
    plays = not config.dataset.records
    count = config.actors.count or max(1, room.fit)
    if count > most and not nodes_may_return:
        cpus = sum(node.cpus for node in players)
        has = f"the autoscaler may bring {growing_cpus:g}" if growing_cpus else f"Ray has {cpus:g}"
        raise UsageError(
            f"actors.count={count}: with actors.cpus={config.actors.cpus:g} they need {count * config.actors.cpus:g} "
            f"CPUs, and {has}; ask for actors.count={most} at most, or for fewer CPUs an actor"
            if config.actors.count else
            f"actors.cpus={config.actors.cpus:g}: no node of Ray has so many CPUs; ask for fewer CPUs an actor"
        )
    devices = devices_of(config, gpus, here, most_servers=count)
    config = devices.settle(config)
    placement = placement_of(config)
    games = config.actors.games
    if placement == "server" and not config.actors.games_per_actor:
        games = games_of_each(count, config.inference.servers)
    largest = min(LARGEST_BATCH, max(8, games * count // config.inference.servers))
    return Layout(count if plays else 0, placement, games, tuple(batch_sizes(config, largest)), devices)


def games_of_each(actors: int, servers: int = 1) -> int:
    """Games of each actor that keep BATCHES_IN_FLIGHT full batches of each server on their way.

    A request has one position of each game of a group, and a whole number of requests fills a batch.
    """
    groups = group_games(max(FEWEST_GAMES, -(-BATCHES_IN_FLIGHT * LARGEST_BATCH * servers // actors)))
    requests = max(1, LARGEST_BATCH // groups[0])
    return len(groups) * (LARGEST_BATCH // requests)


def placement_of(config: Config) -> str:
    """Returns actor or server: on a CPU a server can only lose, and one actor cannot fill a GPU."""
    if config.inference.placement != "auto":
        return config.inference.placement
    return "server" if config.inference.is_on_gpu else "actor"


def batch_sizes(config: Config, largest: int) -> list[int]:
    """Sizes of batches up to `largest`: on a GPU in steps that waste little, as time goes by rows there.

    On a CPU each size is compiled for half a second, and few small batches come: powers of two.
    """
    is_gpu = config.inference.is_on_gpu or config.inference.runtime == "simulated_gpu"
    return gpu_batch_sizes(largest) if is_gpu else batch_buckets(largest)


def batch_buckets(largest: int) -> list[int]:
    """8, 16, 32, ... up to the first size of at least `largest`."""
    sizes = [8]
    while sizes[-1] < largest:
        sizes.append(2 * sizes[-1])
    return sizes


def gpu_batch_sizes(largest: int) -> list[int]:
    """8, 9, 10, ..., 31, 32, 34, ..., 64, 68, ... up to `largest`."""
    sizes = [LEAST]
    while sizes[-1] < largest:
        sizes.append(min(sizes[-1] + max(1, int(WASTE * sizes[-1])), largest))
    return sizes


def actor_seed(run_seed: int, epoch: int, actor: int, incarnation: int) -> int:
    """64 bits that no other incarnation of any actor has: a successor never repeats the games of its predecessor."""
    digest = hashlib.sha256(f"{run_seed} {epoch} {actor} {incarnation}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def without_secrets(config: Config) -> Config:
    """A copy for other processes: without the command line, and without addresses, which may hold a password."""
    copy = Config(**{field.name: getattr(config, field.name) for field in fields(Config)})
    copy.replay = replace(copy.replay, url="", actor_url="", url_file="", actor_url_file="")
    return copy
