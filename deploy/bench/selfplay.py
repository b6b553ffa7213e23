"""`shusaku bench selfplay`: whole self-play beside the network alone, `actors.count` processes of one thread each."""

import os
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

from shusaku.actors.evaluators.evaluator import MeasurableEvaluator
from shusaku.actors.evaluators.factory import network_maker
from shusaku.actors.policy_games.value_games import ValueGames, game_of
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Weights
from shusaku.common.network.weights import network_config
from shusaku.common.stage_timer import StageTimer
from shusaku.deploy.bench.games_setting import settle_games
from shusaku.deploy.bench.precision_setting import settle_precision
from shusaku.deploy.bench.processes import CONTEXT, run_in_processes, run_in_subprocess
from shusaku.deploy.bench.raw_rate import raw_rate
from shusaku.deploy.bench.self_play_rates import SelfPlayRates, result
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import choose_weights
from shusaku.deploy.run.composed_config import replace_settings
from shusaku.deploy.run.value_policies import find_policies

START_SECONDS = 120.0  # until every process has loaded its network
WARM_UP = 0.2  # of `bench.seconds`, before anything is counted
RAW = 0.4  # of `bench.seconds`, further time for the network alone
SLICES = 15  # that playing and the network alone take turns in, so that a slower second meets both


def measure_selfplay(config: Config) -> dict[str, Any]:
    """Sums over the processes; the network alone is measured by all of them together, in turns with playing."""
    config = replace_settings(config, checkpoint=config.checkpoint or "random")
    count = config.actors.count or len(os.sched_getaffinity(0))
    config, _ = settle_games(config)
    config, _ = settle_precision(config)
    # Torch stays out of the processes that play.
    weights: tuple[Weights, ...] = run_in_subprocess(_weights, config)
    barrier = CONTEXT.Barrier(count)
    calls = [partial(_measure_one, config, weights, actor, barrier) for actor in range(count)]
    answers = run_in_processes(calls, START_SECONDS + 3 * config.bench.seconds)
    rates, raws, networks = zip(*answers, strict=True)
    return result(config, rates, config.actors.games, sum(raws), networks[0])


def _measure_one(
    config: Config, weights: tuple[Weights, ...], actor: int, barrier: Barrier
) -> tuple[dict[str, Any], float, dict[str, Any]]:
    """What the player does a second, evaluations a second of the network alone, and what the network is."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[actor % len(cores)]})
    player, evaluator, timer = _make_player(config, weights, actor)
    rates, seconds, raw = SelfPlayRates(player, timer), config.bench.seconds, 0.0
    barrier.wait(START_SECONDS)
    rates.play(seconds * WARM_UP, is_measured=False)
    for _ in range(SLICES):
        barrier.wait(START_SECONDS)
        raw += raw_rate(evaluator, seconds * RAW / SLICES) / SLICES
        barrier.wait(START_SECONDS)
        timer.charge("wait")
        rates.play(seconds / SLICES)
    return rates.to_json(), raw, {"runtime": evaluator.description, "precision": evaluator.precision}


def _make_player(
    config: Config, weights: tuple[Weights, ...], actor: int
) -> tuple[SelfPlay, MeasurableEvaluator, StageTimer]:
    """A player, its network, or that of the first policy of games for a value network, and its timer."""
    seed, timer = config.run.seed + actor, StageTimer()
    game = game_of(configured_game(config.game), weights[0])
    evaluators = []
    for each in weights:
        network = network_config(each)
        evaluators.append(network_maker(game, config.inference, network, timer)(config.actors.games))
        evaluators[-1].load(each)
    if config.value.enabled:
        player: SelfPlay = ValueGames(
            configured_game(config.game), config.search, config.value, evaluators, policy_game=game,
            batch=config.actors.games, seed=seed, identity=ActorIdentity(actor), timer=timer)
    else:
        player = SelfPlay(game, config.search, config.self_play, evaluators[0], games=config.actors.games, seed=seed,
                          identity=ActorIdentity(actor), timer=timer)
    return player, evaluators[0], timer


def _weights(config: Config) -> tuple[Weights, ...]:
    """Of the network, or of both policies of games for a value network."""
    if config.value.enabled:
        return find_policies(config)
    chosen = choose_weights(config)
    return (with_scales(config.inference, chosen.game, chosen.network, chosen.weights),)
