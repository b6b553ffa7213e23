"""Where each worker runs: the request of the configuration, checked against the resources that Ray has."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError

LARGEST_BATCH = 1024  # positions of an inference server
FEWEST_GAMES, MOST_GAMES = 16, 512  # of an actor with actors.games_per_actor=auto, if it asks a server


@dataclass(frozen=True)
class Layout:
    """The workers that are started."""

    actors: int
    max_actors: int  # for which the cluster has CPUs
    placement: str  # actor | server
    games: int  # of each actor
    sizes: tuple[int, ...]  # batch sizes of a server


def layout_of(config: Config, nodes: Sequence[float], gpus: float) -> Layout:
    """The layout on `nodes` (CPUs of each) and `gpus` in all; UsageError, with the numbers, if it does not fit.

    Only self-play actors claim CPUs.  The claims of other jobs on the cluster are not known here: an actor without a
    free CPU waits for one.
    """
    most = sum(math.floor(node / config.actors.cpus + 1e-9) for node in nodes)
    plays = not config.dataset.records
    count = config.actors.count or max(1, most)
    if count > most:
        raise UsageError(
            f"actors.count={count}: with actors.cpus={config.actors.cpus:g} they need {count * config.actors.cpus:g} "
            f"CPUs, and Ray has {sum(nodes):g}; ask for actors.count={most} at most, or for fewer CPUs an actor"
            if config.actors.count else
            f"actors.cpus={config.actors.cpus:g}: no node of Ray has so many CPUs; ask for fewer CPUs an actor"
        )
    placement = placement_of(config)
    on_gpu = config.inference.servers if placement == "server" and config.inference.device == "cuda" else 0
    needed = on_gpu + (1 if config.learner.enabled and config.learner.device == "cuda" else 0)
    if needed > gpus:
        raise UsageError(f"inference.device={config.inference.device}, learner.device={config.learner.device}: they "
                         f"need {needed} GPUs, and Ray has {gpus:g}; use cpu for one of them, or fewer "
                         "inference.servers")
    games = config.actors.games
    if placement == "server" and not config.actors.games_per_actor:
        # Each actor searches half of its games while the others are evaluated: twice what fills the servers.
        games = min(MOST_GAMES, max(FEWEST_GAMES, 2 * LARGEST_BATCH * config.inference.servers // count))
    largest = min(LARGEST_BATCH, max(8, games * count // config.inference.servers))
    return Layout(count if plays else 0, most if plays else 0, placement, games, tuple(batch_buckets(largest)))


def placement_of(config: Config) -> str:
    """Returns actor or server: on a CPU a server can only lose, and one actor cannot fill a GPU."""
    if config.inference.placement != "auto":
        return config.inference.placement
    return "server" if config.inference.device == "cuda" else "actor"


def batch_buckets(largest: int) -> list[int]:
    """8, 16, 32, ... up to the first size of at least `largest`."""
    sizes = [8]
    while sizes[-1] < largest:
        sizes.append(2 * sizes[-1])
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
