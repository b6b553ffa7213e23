"""`shusaku bench selfplay`: whole self-play beside the network alone, `actors.count` processes of one thread each."""

import multiprocessing
import os
import time
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from typing import Any

import psutil

from shusaku.actors.evaluators.factory import network_maker
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common.config.schema import Config
from shusaku.common.stage_timer import StageTimer, shares
from shusaku.deploy.bench.games_setting import run_in_subprocess, settle_games
from shusaku.deploy.bench.processes import collect_answers, put_answer
from shusaku.deploy.bench.raw_rate import raw_rate
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import choose_weights
from shusaku.deploy.run.composed_config import replace_settings

START_SECONDS = 120.0  # until every process has loaded its network
WARM_UP = 0.2  # of `bench.seconds`, before anything is counted
RAW = 0.4  # of `bench.seconds`, further time for the network alone
SLICES = 15  # that playing and the network alone take turns in, so that a slower second meets both


def measure_selfplay(config: Config) -> dict[str, Any]:
    """Sums over the processes; the network alone is measured by all of them together, in turns with playing."""
    count = config.actors.count or len(os.sched_getaffinity(0))
    # Torch stays out of the processes that play.
    scales = run_in_subprocess(_scales, config) if config.inference.precision == "int8" else {}
    config, _ = settle_games(config)
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    barrier = context.Barrier(count)
    results: Any = context.Queue()
    answers = collect_answers([
        context.Process(target=put_answer, args=(results, _measure_one, config, scales, actor, barrier))
        for actor in range(count)
    ], results, START_SECONDS + 3 * config.bench.seconds)
    total = {name: sum(f[name] for f in answers) for name in answers[0] if name not in ("description", "precision")}
    raw = total["raw"]
    known = total["cache_hits"] + total["evaluations"]
    return {
        "game": config.game.name,
        "actors": count,
        "games_per_actor": config.actors.games,
        "runtime": answers[0]["description"],
        "precision": answers[0]["precision"],
        "raw_evaluations_per_s": raw,
        "evaluations_per_s": total["evaluations"],
        "of_raw": total["evaluations"] / raw,
        "searches_per_s": total["searches"],
        "rows_per_s": total["rows"],
        "games_per_s": total["games"],
        "cache_hit_rate": total["cache_hits"] / known if known else 0.0,
        "time_shares": shares({}, total),
        "actor_mb": total["resident_mb"] / count,
    }


def _measure_one(config: Config, scales: dict[str, float], actor: int, barrier: Barrier) -> dict[str, Any]:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[actor % len(cores)]})
    chosen = choose_weights(replace_settings(config, checkpoint=config.checkpoint or "random"))
    game = chosen.game
    timer = StageTimer()
    evaluator = network_maker(game, config.inference, chosen.network, timer)(config.actors.games)
    evaluator.load(replace(chosen.weights, scales=scales))
    player = SelfPlay(
        game, config.search, config.self_play, evaluator, games=config.actors.games,
        seed=config.run.seed + actor, identity=ActorIdentity(actor), timer=timer,
    )
    seconds = config.bench.seconds
    barrier.wait(START_SECONDS)
    _play(player, seconds * WARM_UP)
    raw, played, spent = 0.0, dict.fromkeys(_counters(player), 0), 0.0
    for _ in range(SLICES):
        barrier.wait(START_SECONDS)
        raw += raw_rate(evaluator, seconds * RAW / SLICES) / SLICES
        barrier.wait(START_SECONDS)
        timer.charge("wait")
        before, begin = _counters(player), time.perf_counter()
        _play(player, seconds / SLICES)
        spent += time.perf_counter() - begin
        for name, count in _counters(player).items():
            played[name] += count - before[name]
    rates = {name: count / spent for name, count in played.items()}
    return {
        **rates, "raw": raw, "description": evaluator.description,
        "precision": evaluator.precision,
        "resident_mb": psutil.Process().memory_info().rss / 1e6,
    }


def _scales(config: Config) -> dict[str, float]:
    chosen = choose_weights(replace_settings(config, checkpoint=config.checkpoint or "random"))
    return with_scales(config.inference, chosen.game, chosen.network, chosen.weights).scales


def _counters(player: SelfPlay) -> dict[str, int]:
    return {**player.counters(), **player.timer.counters()}


def _play(player: SelfPlay, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        player.step()
