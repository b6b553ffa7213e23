"""`run.grow`: a run that goes on in a larger network, with its games, its window and what it has learned.

A stage ends as a stopped run does, with a checkpoint, and the next one begins as the same command given again.  At its
start the newest checkpoint is written anew with the larger network, which answers as the smaller one did; the optimizer
begins anew, with its warm-up.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from shusaku.common._core import Game
from shusaku.common.config.schema import Config, NetworkConfig
from shusaku.common.network.growth import grow, too_small
from shusaku.common.network.network import Network, tensors_of
from shusaku.common.network.targets import make_targets
from shusaku.common.network.tower import evaluation_tensors
from shusaku.common.network.weights import save_weights
from shusaku.learner.checkpoints import (
    WEIGHTS,
    Checkpoint,
    load_latest,
    network_of,
    published_weights,
    write_checkpoint,
)

_KEPT = ("network", "average", "random")  # parts of a checkpoint that a larger network goes on with


def grow_checkpoint(directory: Path, config: Config, game: Game, log: Callable[[str], None]) -> None:
    """Writes the newest checkpoint, and the weights beside it, anew if its network is smaller than the run's.

    ResumeError if there are checkpoints and none is whole.  OSError if the disk refuses: nothing has changed then, or
    the weights alone are still those of before, which `heal_weights` finds.
    """
    found = load_latest(directory / "checkpoints") if config.run.grow else None
    if found is None:
        return
    own = network_of(found.checkpoint, config.network)
    if own == config.network or too_small(own, config.network):
        return
    grown = _grown(found.checkpoint, config, game)
    write_checkpoint(directory / "checkpoints", grown)
    save_weights(directory / WEIGHTS, published_weights(grown, config.network, game))
    log(f"the network grows after {found.checkpoint.step:,} steps: {_size(own)} -> {_size(config.network)}")


def _grown(checkpoint: Checkpoint, config: Config, game: Game) -> Checkpoint:
    network = Network(game.observation_shape, game.num_actions, config.network, make_targets(config.learner),
                      config.run.seed)
    untrained = tensors_of(network)
    tensors: dict[str, dict[str, Any]] = {part: dict(checkpoint.tensors[part]) for part in _KEPT}
    for part in ("network", "average"):
        tensors[part] = grow(tensors[part], untrained)
    played = evaluation_tensors(untrained, config.learner.publish_heads)
    tensors |= {"published": grow(dict(checkpoint.tensors["published"]), played), "optimizer": {}}
    # Scales and errors of 8 bits are those of the smaller network: the next publication has new ones.
    learner = {name: value for name, value in checkpoint.facts["learner"].items()
               if not name.startswith(("scale/", "int8_error/"))}
    facts = {**checkpoint.facts, "learner": {**learner, "first_step": checkpoint.step}, "scales": {}, "refused": ""}
    return Checkpoint(checkpoint.step, tensors, facts, checkpoint.extra)


def _size(network: NetworkConfig) -> str:
    return f"filters {network.filters}, blocks {network.blocks}"
