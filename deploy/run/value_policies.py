"""The two policies that play games for a value network: found once, kept in the run directory, never changed.

    RUN_DIR/policies/supervised.safetensors  reinforced.safetensors

A run that is started again plays with these files, whatever has become of the runs that they came from.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from shusaku.actors.policy_games.value_games import game_of
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError, UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Weights, without_planes
from shusaku.common.network.tower import has_head
from shusaku.common.network.weights import load_weights, network_config, save_weights
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.deploy.run.saved_config import POLICIES_FOLDER

POLICIES = ("supervised", "reinforced")  # in the order in which they play


def find_policies(config: Config, log: Callable[[str], None] = print) -> tuple[Weights, ...]:
    """The policies that `value` names, with scales; UsageError unless both can play the game of this configuration."""
    return tuple(_with_scales(config, weights, log) for weights in _find(config))


def check_policies(config: Config) -> None:
    """UsageError unless the policies that `value` names can play the game of this configuration.

    Called before anything is started; a run directory that has its copies asks for nothing.
    """
    if config.value.enabled and not _are_kept(Path(config.run.dir)):
        _find(config)


def load_policies(config: Config, directory: Path, log: Callable[[str], None]) -> tuple[Weights, ...]:
    """The supervised and the reinforced policy, with scales if inference.precision=int8 can have them.

    Empty without `value.enabled`.  Keeps a copy of each in the run directory the first time.
    """
    if not config.value.enabled:
        return ()
    if _are_kept(directory):
        policies = [load_weights(path) for path in _paths(directory)]
    else:
        policies = _find(config)
        (directory / POLICIES_FOLDER).mkdir(exist_ok=True)
        for path, weights in zip(_paths(directory), policies, strict=True):
            save_weights(path, weights)
    return tuple(_with_scales(config, weights, log) for weights in policies)


def _find(config: Config) -> list[Weights]:
    game = configured_game(config.game)
    found: list[Weights] = []
    for key in POLICIES:
        name = getattr(config.value, key)
        source = f"value.{key}={name}"
        weights = find_weights(config, f"value.{key}", name).weights
        own = game_of(game, weights)
        if own.name != game.name or without_planes(own.params) != without_planes(game.params):
            raise UsageError(f"{source}: plays {_text(own)}, and this run {_text(game)}; name a policy of the same "
                             "game")
        if not has_head(weights.tensors, "policy"):
            raise UsageError(f"{source}: has no policy head; name a run whose learner.targets hold policy")
        if found and own.params != game_of(game, found[0]).params:
            raise UsageError(f"{source}: sees {_text(own)}, and value.supervised={config.value.supervised} "
                             f"{_text(game_of(game, found[0]))}; both policies must have the same planes")
        found.append(weights)
    return found


def _with_scales(config: Config, weights: Weights, log: Callable[[str], None]) -> Weights:
    game = game_of(configured_game(config.game), weights)
    network = network_config(weights)
    try:
        return with_scales(config.inference, game, network, weights)
    except RunError as refused:
        log(f"{refused}; the next best precision is used")
        return replace(weights, rejected=str(refused))


def _are_kept(directory: Path) -> bool:
    return all(path.exists() for path in _paths(directory))


def _paths(directory: Path) -> list[Path]:
    return [directory / POLICIES_FOLDER / f"{key}.safetensors" for key in POLICIES]


def _text(game: Game) -> str:
    return f"{game.name}({', '.join(f'{name}={value}' for name, value in game.params.items())})"
