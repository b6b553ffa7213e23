"""`checkpoint=RUN_DIR|FILE|random`: which weights, of which game, searched how."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from shusaku.common._core import Game
from shusaku.common.config.rule import raise_first
from shusaku.common.config.schema import Config, NetworkConfig
from shusaku.common.config.search import (
    POLICIES,
    SearchConfig,
    change_search,
    make_search,
    search_rules,
    without_exploration,
)
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Weights
from shusaku.common.network.tower import HEADS, evaluation_tensors
from shusaku.common.network.weights import load_weights, random_weights
from shusaku.deploy.run.composed_config import asked_keys, asked_search
from shusaku.deploy.run.game_parameters import check_search
from shusaku.deploy.run.saved_config import find_config, holds_run, read_config
from shusaku.learner.checkpoints import Found, is_checkpoint, load_checkpoint, load_latest


@dataclass(frozen=True)
class ChosenWeights:
    """What `choose_weights` found."""

    game: Game
    network: NetworkConfig
    search: SearchConfig
    weights: Weights
    notes: tuple[str, ...] = ()  # lines for the user


def choose_weights(config: Config) -> ChosenWeights:
    """The weights that `checkpoint` names, as `find_weights`; UsageError, too, if they cannot be searched so."""
    chosen = find_weights(config, "checkpoint", config.checkpoint)
    check_searcher(chosen.game, chosen.search, "search")
    return chosen


def check_searcher(game: Game, search: SearchConfig, key: str) -> None:
    """UsageError if a player for strength cannot use this search, whose settings begin with `key`."""
    raise_first(search_rules(without_exploration(search), key))
    check_search(game, search)


def find_weights(config: Config, key: str, name: str) -> ChosenWeights:
    """The weights `name`, the value of `key`; game and network come from them, and from a run directory the search too.

    A file, or one of the checkpoints, in a run directory is searched as that run was.  UsageError when there are none;
    ResumeError when there are only damaged checkpoints.
    """
    if not name:
        raise UsageError(f"{key}= is missing: name a run directory, a weights.safetensors file, or `random`")
    if name == "random":
        game = configured_game(config.game)
        weights = random_weights(game, config.network, config.run.seed, version=1)
        return ChosenWeights(game, config.network, config.search, weights)
    path = Path(name)
    if path.is_dir():
        return _of_directory(path, config, key)
    if not path.exists():
        raise UsageError(f"{key}={name}: no such file or directory; name a run directory, a weights.safetensors "
                         "file, or `random`")
    weights = load_weights(path)
    run = path.parent
    search = search_of_run(read_config(run), config) if holds_run(run) else config.search
    return _of(weights, search)


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
    (saved, note), facts = find_config(run), found.checkpoint.facts
    tensors = evaluation_tensors(found.checkpoint.tensors["average"], HEADS)
    weights = Weights(int(facts["version"]), found.checkpoint.step, tensors, dict(saved["network"]),
                      str(facts["game"]), dict(saved["game"].get("params") or {}))
    chosen = _of(weights, search_of_run(saved, config))
    damaged = (f"damaged and passed over: {line}" for line in found.damaged)
    return replace(chosen, notes=(*damaged, *([note] if note else [])))


def _of(weights: Weights, search: SearchConfig) -> ChosenWeights:
    network = NetworkConfig(**cast(dict[str, Any], weights.network))
    return ChosenWeights(Game(weights.game, weights.params), network, search, weights)


def search_of_run(saved: dict[str, Any], config: Config) -> SearchConfig:
    """As the run with this saved tree was searched, but for what this command line asks for."""
    if "search" in asked_keys(config):
        return config.search
    return change_search(_saved_search(saved), asked_search(config), "search")


def _saved_search(saved: dict[str, Any]) -> SearchConfig:
    section = saved["search"]
    if section["policy"] not in POLICIES:
        raise UsageError(f"the run was searched with policy {section['policy']}, which this program does not have; "
                         f"use search={'|'.join(POLICIES)}")
    return make_search(section["policy"], **section)
