"""`checkpoint=RUN_DIR|FILE|shipped|random`: which weights, of which game, searched how."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from shusaku.common._core import Game
from shusaku.common.config.rule import raise_first
from shusaku.common.config.schema import Config, NetworkConfig
from shusaku.common.config.search import (
    POLICIES,
    SearchConfig,
    change_search,
    make_search,
    replace_read,
    search_rules,
    without_exploration,
)
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Weights
from shusaku.common.network.fingerprint import check_planes
from shusaku.common.network.tower import HEADS, evaluation_tensors, has_head
from shusaku.common.network.weights import load_weights, network_config, random_weights
from shusaku.deploy.run.composed_config import asked_keys, asked_search
from shusaku.deploy.run.game_parameters import check_search
from shusaku.deploy.run.saved_config import find_config, holds_run, read_config
from shusaku.learner.checkpoints import (
    WEIGHTS,
    Checkpoint,
    Found,
    is_checkpoint,
    load_checkpoint,
    load_latest,
    network_of,
)

SHIPPED = {"connect_four": "connect_four", "go": "go_9x9"}  # game -> its folder in deploy/shipped
_SHIPPED_FOLDER = Path(__file__).resolve().parents[1] / "shipped"


@dataclass(frozen=True)
class ChosenWeights:
    """What `choose_weights` found."""

    game: Game
    network: NetworkConfig
    search: SearchConfig
    weights: Weights
    notes: tuple[str, ...] = ()  # lines for the user


def choose_weights(config: Config, default_game: str = "") -> ChosenWeights:
    """The weights that `checkpoint` names, as `find_weights`; UsageError, too, if they cannot be searched so."""
    chosen = find_weights(config, "checkpoint", config.checkpoint, default_game)
    check_searcher(chosen.game, chosen.search, "search")
    check_heads(chosen.weights, chosen.search, f"checkpoint={config.checkpoint}", "search")
    return chosen


def check_heads(weights: Weights, search: SearchConfig, source: str, key: str) -> None:
    """UsageError, which begins with `source`, if the search asks for a head that the network does not have.

    A search that has a value may go without a policy: all its priors are equal then.
    """
    asked = "policy" if search.policy == "policy_only" else "value"
    if search.policy != "mcts" and not has_head(weights.tensors, asked):
        other = f"{key}=puct" if asked == "policy" else f"{key}=policy_only"
        raise UsageError(f"{source}: this network has no {asked}, which {key}={search.policy} asks for; use {other}, "
                         f"or train a network with {asked} among learner.targets")


def check_searcher(game: Game, search: SearchConfig, key: str) -> None:
    """UsageError if a player for strength cannot use this search, whose settings begin with `key`."""
    raise_first(search_rules(without_exploration(search), key))
    check_search(game, search)


def find_weights(config: Config, key: str, name: str, default_game: str = "") -> ChosenWeights:
    """The weights `name`, the value of `key`; game and network come from them, and from a run directory the search too.

    A file, or one of the checkpoints, in a run directory is searched as that run was.  `shipped` is the network of ours
    for the game that is asked for, or else for `default_game`.  UsageError when there are none; ResumeError when there
    are only damaged checkpoints.
    """
    if not name:
        raise UsageError(f"{key}= is missing: name a run directory, a weights.safetensors file, `shipped` or `random`")
    if name == "random":
        game = configured_game(config.game)
        weights = random_weights(game, config.network, config.run.seed, version=1)
        return ChosenWeights(game, config.network, config.search, weights)
    path = shipped_file(config, key, default_game) if name == "shipped" else Path(name)
    if path.is_dir():
        return _of_directory(path, config, key)
    if not path.exists():
        raise UsageError(f"{key}={name}: no such file or directory; name a run directory, a weights.safetensors "
                         "file, `shipped` or `random`")
    weights = load_weights(path)
    run = path.parent
    search = search_of_run(read_config(run), config) if holds_run(run) else _asked_for(weights.game, config)
    return _of(weights, search, f"{key}={name}")


def shipped_file(config: Config, key: str, default_game: str = "") -> Path:
    """The weights file beside this program; UsageError if the game has none."""
    is_asked = not asked_keys(config).isdisjoint(("game", "game.name", "experiment"))
    game = default_game if default_game and not is_asked else config.game.name
    if game not in SHIPPED:
        raise UsageError(f"{key}=shipped: there is no such network of {game}, only of {' and '.join(SHIPPED)}; train "
                         "one with shusaku local, and name its run directory")
    return _SHIPPED_FOLDER / SHIPPED[game] / WEIGHTS


def _of_directory(path: Path, config: Config, key: str) -> ChosenWeights:
    """Of a run directory, of its `checkpoints`, or of a single one of them."""
    found: Found | None
    if is_checkpoint(path):
        found, run = load_checkpoint(path), path.resolve().parent.parent
    else:
        run = path if (path / "checkpoints").is_dir() else path.resolve().parent
        found = load_latest(path / "checkpoints" if run == path else path)
    if found is None:
        raise UsageError(f"{key}={path}: holds no checkpoint; train first, or name another directory")
    if not holds_run(run):
        raise UsageError(f"{key}={path}: belongs to no run directory, for there is no config.yaml; name a run "
                         "directory, or a weights.safetensors file")
    saved, note = find_config(run)
    weights = average_weights(found.checkpoint, saved)
    weights = replace(weights, tensors=evaluation_tensors(weights.tensors, HEADS))
    chosen = _of(weights, search_of_run(saved, config), f"{key}={path}")
    damaged = (f"damaged and passed over: {line}" for line in found.damaged)
    return replace(chosen, notes=(*damaged, *([note] if note else [])))


def average_weights(checkpoint: Checkpoint, saved: dict[str, Any]) -> Weights:
    """The averaged network with all its heads, of a run with this saved tree."""
    facts, params = checkpoint.facts, dict(saved["game"].get("params") or {})
    network = asdict(network_of(checkpoint, NetworkConfig(**saved["network"])))
    return Weights(int(facts["version"]), checkpoint.step, dict(checkpoint.tensors["average"]), network,
                   str(facts["game"]), params, planes=facts.get("planes", ""))


def _of(weights: Weights, search: SearchConfig, source: str) -> ChosenWeights:
    network = network_config(weights)
    game = Game(weights.game, weights.params)
    check_planes(game, weights.planes, source)
    return ChosenWeights(game, network, search, weights)


def search_of_run(saved: dict[str, Any], config: Config) -> SearchConfig:
    """As the run with this saved tree was searched, but for what this command line asks for."""
    if "search" in asked_keys(config):
        return _asked_for(saved["game"]["name"], config)
    return change_search(_saved_search(saved), asked_search(config), "search")


def _asked_for(game: str, config: Config) -> SearchConfig:
    """The search of this command line; how many endings the preset of another game solves says nothing of this game."""
    if game == config.game.name or "solved_empties" in asked_search(config):
        return config.search
    return replace_read(config.search, solved_empties=0)


def _saved_search(saved: dict[str, Any]) -> SearchConfig:
    section = saved["search"]
    if section["policy"] not in POLICIES:
        raise UsageError(f"the run was searched with policy {section['policy']}, which this program does not have; "
                         f"use search={'|'.join(POLICIES)}")
    return make_search(section["policy"], **section)
