"""`shusaku bench selfplay`: whole self-play beside the network alone, `actors.count` processes of one thread each."""

import os
from dataclasses import replace
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

from shusaku.actors.evaluators.factory import network_maker
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common.config.schema import Config
from shusaku.common.stage_timer import StageTimer
from shusaku.deploy.bench.games_setting import settle_games
from shusaku.deploy.bench.processes import CONTEXT, run_in_processes, run_in_subprocess
from shusaku.deploy.bench.raw_rate import raw_rate
from shusaku.deploy.bench.self_play_rates import SelfPlayRates, result
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import choose_weights
from shusaku.deploy.run.composed_config import replace_settings

START_SECONDS = 120.0  # until every process has loaded its network
WARM_UP = 0.2  # of `bench.seconds`, before anything is counted
RAW = 0.4  # of `bench.seconds`, further time for the network alone
SLICES = 15  # that playing and the network alone take turns in, so that a slower second meets both


def measure_selfplay(config: Config) -> dict[str, Any]:
    """Sums over the processes; the network alone is measured by all of them together, in turns with playing."""
    config = replace_settings(config, checkpoint=config.checkpoint or "random")
    count = config.actors.count or len(os.sched_getaffinity(0))
    # Torch stays out of the processes that play.
    scales = run_in_subprocess(_scales, config) if config.inference.precision == "int8" else {}
    config, _ = settle_games(config)
    barrier = CONTEXT.Barrier(count)
    calls = [partial(_measure_one, config, scales, actor, barrier) for actor in range(count)]
    answers = run_in_processes(calls, START_SECONDS + 3 * config.bench.seconds)
    rates, raws, networks = zip(*answers, strict=True)
    return result(config, rates, config.actors.games, sum(raws), networks[0])


def _measure_one(
    config: Config, scales: dict[str, float], actor: int, barrier: Barrier
) -> tuple[dict[str, Any], float, dict[str, Any]]:
    """What the player does a second, evaluations a second of the network alone, and what the network is."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[actor % len(cores)]})
    chosen = choose_weights(config)
    timer = StageTimer()
    evaluator = network_maker(chosen.game, config.inference, chosen.network, timer)(config.actors.games)
    evaluator.load(replace(chosen.weights, scales=scales))
    player = SelfPlay(
        chosen.game, config.search, config.self_play, evaluator, games=config.actors.games,
        seed=config.run.seed + actor, identity=ActorIdentity(actor), timer=timer,
    )
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


def _scales(config: Config) -> dict[str, float]:
    chosen = choose_weights(config)
    return with_scales(config.inference, chosen.game, chosen.network, chosen.weights).scales
