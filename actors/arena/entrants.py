"""The players that meet while a run goes on: versions of its network, and anchors of fixed strength."""

import re
from collections.abc import Callable, Sequence

from shusaku.actors.arena.players import Player, RandomPlayer, SearchPlayer
from shusaku.actors.arena.strength import strength_search
from shusaku.actors.evaluators.dummies import UniformEvaluator
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, RaterConfig
from shusaku.common.config.search import MctsConfig, SearchConfig, rows_a_step
from shusaku.common.messages import Weights
from shusaku.common.network.weights import network_config
from shusaku.common.search import Evaluate

RANDOM = "random"
_UCT = re.compile(r"uct_([1-9]\d{0,6})")


def is_anchor(name: str) -> bool:
    """Whether a player of fixed strength has this name: `random`, or `uct_400`, plain UCT with so many rollouts."""
    return name == RANDOM or _UCT.fullmatch(name) is not None


def anchor_player(
    name: str, game: Game, *, games_at_once: int, threads: int, seed: int,
    should_stop: Callable[[], bool] = lambda: False,
) -> Player:
    """The anchor of this name."""
    rollouts = _UCT.fullmatch(name)
    if rollouts is None:
        return RandomPlayer(seed=seed)
    never_asked = [UniformEvaluator(game, 1) for _ in range(threads)]
    return SearchPlayer(name, game, MctsConfig(simulations=int(rollouts[1])), never_asked, games_at_once=games_at_once,
                        seed=seed, should_stop=should_stop)


def load_evaluators(config: Config, game: Game, weights: Weights, games_at_once: int, threads: int) -> list[Evaluate]:
    """Evaluators of these weights, one a thread, as the configuration has them; the network's size is the weights'."""
    share = -(-games_at_once // threads)
    rows = share * rows_a_step(config.search, game.num_symmetries)
    evaluators: list[Evaluate] = []
    for _ in range(threads):
        evaluator = make_bucketed_evaluator(game, config.inference, network_config(weights), rows)
        evaluator.load(weights)
        evaluators.append(evaluator)
    return evaluators


def rating_search(search: SearchConfig, rater: RaterConfig) -> SearchConfig:
    """How a version is searched for its rating, while it trains and by `shusaku rate`, or it would be two players.

    `search`: that of the run's self-play; no more simulations than it has.
    """
    return strength_search(search, rated_simulations(search.simulations, rater))


def rated_simulations(simulations: int, rater: RaterConfig) -> int:
    """Of a rated version's moves, whose run has so many in self-play."""
    return min(simulations, rater.simulations)


def version_player(
    name: str, game: Game, search: SearchConfig, evaluators: Sequence[Evaluate], *, games_at_once: int, seed: int,
    should_stop: Callable[[], bool] = lambda: False,
) -> Player:
    """A version of the network, as it is searched for strength."""
    return SearchPlayer(name, game, search, evaluators, games_at_once=games_at_once, seed=seed, should_stop=should_stop)
