"""`learner.start`: weights of an earlier run that a new run begins with, kept in its directory.

    RUN_DIR/start.safetensors

A run that is started again takes this file, whatever has become of the run that it came from.
"""

from pathlib import Path

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Weights
from shusaku.common.network.growth import too_small
from shusaku.common.network.weights import load_weights, network_config, save_weights
from shusaku.deploy.run.chosen_weights import find_weights

FILE = "start.safetensors"


def check_learner_start(config: Config) -> None:
    """UsageError unless the weights that `learner.start` names are there and fit; before anything is started.

    A run directory that has its copy asks for nothing.
    """
    if config.learner.start and not (Path(config.run.dir) / FILE).exists():
        _find(config)


def load_learner_start(config: Config, directory: Path) -> Weights | None:
    """The weights that the network begins with, None for untrained ones; keeps a copy in the run directory."""
    if not config.learner.start:
        return None
    path = directory / FILE
    if path.exists():
        return load_weights(path)
    weights = _find(config)
    save_weights(path, weights)
    return weights


def _find(config: Config) -> Weights:
    source = f"learner.start={config.learner.start}"
    weights, game = find_weights(config, "learner.start", config.learner.start).weights, configured_game(config.game)
    played = Game(weights.game, weights.params)
    if len({(one.name, one.observation_shape, one.num_actions) for one in (played, game)}) > 1:
        raise UsageError(f"{source}: is of {_text(played)}, and this run plays {_text(game)}; name a run of the same "
                         "board and planes")
    own = network_config(weights)
    unlearned = {"policy", "value"} - set(config.learner.targets)  # heads that this run does not have
    if differing := too_small(own, config.network, unlearned):
        asked = " ".join(f"network.{name}={getattr(own, name)}" for name in differing)
        raise UsageError(f"{source}: has another network than this run, which may have more blocks, filters and units, "
                         f"and no fewer; add {asked}")
    return weights


def _text(game: Game) -> str:
    return f"{game.name}({', '.join(f'{name}={value}' for name, value in game.params.items())})"
