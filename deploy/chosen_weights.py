"""`checkpoint=RUN_DIR|FILE|random`: which weights, of which game, searched how."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common._core import Game
from common.config import Config, NetworkConfig, SearchConfig
from common.errors import UsageError
from common.messages import Weights
from common.weights import load_weights, random_weights
from deploy.overrides import ComposedConfig
from deploy.run_directory import read_config
from learner.checkpoints import load_latest


@dataclass(frozen=True)
class ChosenWeights:
    """What `choose_weights` found."""

    game: Game
    network: NetworkConfig
    search: SearchConfig
    weights: Weights
    notes: tuple[str, ...] = ()  # lines for the user


def choose_weights(config: Config) -> ChosenWeights:
    """The weights that `checkpoint` names; game and network come from them, and from a run directory the search too.

    UsageError when there are none; ResumeError when the directory holds only damaged checkpoints.
    """
    name = config.checkpoint
    if not name:
        raise UsageError("checkpoint= is missing: name a run directory, a weights.safetensors file, or `random`")
    if name == "random":
        game = Game(config.game.name, config.game.params)
        weights = random_weights(game, config.network, config.run.seed, version=1)
        return ChosenWeights(game, config.network, config.search, weights)
    path = Path(name)
    if path.is_dir():
        return _of_run(path, config)
    if not path.exists():
        raise UsageError(f"checkpoint={name}: no such file or directory; name a run directory, a weights.safetensors "
                         "file, or `random`")
    weights = load_weights(path)
    return _of(weights, config.search)


def _of_run(path: Path, config: Config) -> ChosenWeights:
    directory = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    found = load_latest(directory)
    if found is None:
        raise UsageError(f"checkpoint={path}: holds no checkpoint; train first, or name another directory")
    facts, saved = found.checkpoint.facts, read_config(path) if (path / "config.yaml").exists() else {}
    if not saved:
        raise UsageError(f"checkpoint={path}: has no config.yaml, so it is no run directory; name the directory above "
                         "`checkpoints`, or a weights.safetensors file")
    network = {key: int(value) for key, value in saved["network"].items()}
    weights = Weights(
        int(facts["version"]), found.checkpoint.step, dict(found.checkpoint.tensors["average"]), network,
        str(facts["game"]), dict(saved["game"].get("params") or {}),
    )
    chosen = _of(weights, _search_of_run(saved["search"], config))
    return replace(chosen, notes=tuple(f"damaged and passed over: {line}" for line in found.damaged))


def _of(weights: Weights, search: SearchConfig) -> ChosenWeights:
    return ChosenWeights(Game(weights.game, weights.params), NetworkConfig(**weights.network), search, weights)


def _search_of_run(saved: dict[str, Any], config: Config) -> SearchConfig:
    """As the run was searched, but for what this command line asks for."""
    overrides = config.overrides if isinstance(config, ComposedConfig) else []
    keys = [text.lstrip("+").partition("=")[0] for text in overrides]
    if "search" in keys:
        return config.search
    asked = {key.removeprefix("search.") for key in keys if key.startswith("search.")}
    known = {key: value for key, value in saved.items() if key in vars(config.search) and key not in asked}
    return replace(config.search, **known)
