"""How long games are and how large their records, of quick games: a short measurement may see none of its own end."""

import time
from dataclasses import replace

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.policy_games.value_games import ValueGames
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.common.config.schema import Config, SelfPlayConfig, self_play_search
from shusaku.common.config.search import GumbelConfig
from shusaku.common.messages import GameRecord

PARALLEL_GAMES, ENOUGH = 16, 64  # games; so many that those in which much happens are among them
MOST_SIMULATIONS = 64  # of a search, or it takes too long
SECONDS = 5.0  # after which what has ended must do: a game in Python is slow


def game_sizes(config: Config, game: Game) -> tuple[float, float]:
    """Mean rows of a game that are learned from, and stored bytes a row.

    Of games of an untrained network, begun and searched as configured; the longest ones if none ends.
    """
    few, batch, seed = min(config.search.simulations, MOST_SIMULATIONS), PARALLEL_GAMES // 2, config.run.seed
    search = replace(self_play_search(config.search, config.self_play), simulations=few)
    if isinstance(search, GumbelConfig):
        search = replace(search, considered_actions=min(search.considered_actions, few))
    if config.value.enabled:
        policies = [PseudoRandomEvaluator(game, batch) for _ in range(2)]
        player: SelfPlay = ValueGames(game, search, config.value, policies, policy_game=game, batch=batch, seed=seed,
                                      identity=ActorIdentity(0))
    else:
        player = SelfPlay(
            game, search, SelfPlayConfig(random_plies=config.self_play.random_plies),
            PseudoRandomEvaluator(game, PARALLEL_GAMES), games=PARALLEL_GAMES, seed=seed, identity=ActorIdentity(0),
        )
    ended: list[GameRecord] = []
    until = time.monotonic() + SECONDS
    while len(ended) < ENOUGH and time.monotonic() < until:
        ended += player.step()
    rows = sum(record.num_rows for record in ended)
    learned = 1 - config.self_play.cheap_share
    if not rows:
        return game.max_plies * learned, 2.0 * few  # an action and its share
    return rows * learned / len(ended), sum(len(encode_record(record)) for record in ended) / rows
