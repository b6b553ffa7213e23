"""What policy gradient begins with: the policy and, with a baseline, the value network, kept in the run directory.

    RUN_DIR/reinforce/start.safetensors  baseline.safetensors  pool/

A run that is started again takes these files, whatever has become of the runs that they came from.
"""

from dataclasses import asdict
from pathlib import Path

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Params, Weights, without_planes
from shusaku.common.network.tower import has_head
from shusaku.common.network.weights import network_config, save_weights
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.learner.opponent_pool import FOLDER, OpponentPool
from shusaku.learner.policy_gradient import BASELINE, START
from shusaku.replay.buffer import QueueOptions


def check_start(config: Config) -> None:
    """UsageError unless policy and baseline are there and fit; before anything is started.

    A run directory that has its copies asks for nothing.
    """
    for file, key in _files(config):
        if not (Path(config.run.dir) / FOLDER / file).exists():
            _find(config, key)


def keep_start(config: Config, run: Path) -> None:
    """Copies policy and baseline into the run directory, unless they are there; UsageError as in `check_start`."""
    for file, key in _files(config):
        path = run / FOLDER / file
        if not path.exists():
            weights = _find(config, key)
            path.parent.mkdir(parents=True, exist_ok=True)
            save_weights(path, weights)


def open_pool(config: Config, run: Path) -> OpponentPool:
    """The pool of a run directory, which this process adds to."""
    return OpponentPool(run, config.reinforce.pool_every)


def queue_options(config: Config, *, takes_turns: bool) -> QueueOptions | None:
    """The queue of games for the learner; None without policy gradient.

    `takes_turns`: playing waits for each update.  Else half of `max_lag` may be waiting, and the other half is for the
    games that are played meanwhile.
    """
    reinforce = config.reinforce
    if not reinforce.enabled:
        return None
    updates = 1 if takes_turns else max(1, reinforce.max_lag // 2)
    return QueueOptions(reinforce.games, reinforce.max_lag, updates * reinforce.games)


def games_of_turn(config: Config, actors: int) -> int:
    """Games of an actor's round where playing and learning take turns: both colours, at most its part of an update.

    So no game waits for a second update, but for the rest of a division.
    """
    return min(config.actors.games, 2 * -(-config.reinforce.games // (2 * actors)))


def _files(config: Config) -> list[tuple[str, str]]:
    """Names of the files and of the settings that say where they come from."""
    if not config.reinforce.enabled:
        return []
    return [(START, "start"), *([(BASELINE, "baseline")] if config.reinforce.baseline else [])]


def _find(config: Config, key: str) -> Weights:
    is_policy = key == "start"
    setting = "policy.from" if is_policy else "reinforce.baseline"
    name = getattr(config.reinforce, key)
    if not name:
        raise UsageError(f"{setting}= is missing: name the run, checkpoint or file of a policy, such as "
                         f"{setting}=runs/imitation; policy gradient goes on from a policy that was learned before")
    weights, game = find_weights(config, setting, name).weights, configured_game(config.game)
    source, own = f"{setting}={name}", Game(weights.game, weights.params)
    if own.name != game.name or _rules(own, is_policy) != _rules(game, is_policy):
        raise UsageError(f"{source}: is of {_text(own)}, and this run plays {_text(game)}; name one of the same game")
    head = "policy" if is_policy else "value"
    if not has_head(weights.tensors, head):
        raise UsageError(f"{source}: has no {head} head; name a run whose learner.targets hold {head}")
    wanted, found = asdict(config.network), asdict(network_config(weights))
    parts = ("value_",) if is_policy else tuple(wanted)  # that need not be the same
    differing = [f"network.{part}={value}" for part, value in found.items()
                 if value != wanted.get(part) and not part.startswith(parts)]
    if differing:
        raise UsageError(f"{source}: has another network than this run; add {' '.join(differing)}")
    return weights


def _rules(game: Game, with_planes: bool) -> Params:
    return game.params if with_planes else without_planes(game.params)


def _text(game: Game) -> str:
    return f"{game.name}({', '.join(f'{name}={value}' for name, value in game.params.items())})"
