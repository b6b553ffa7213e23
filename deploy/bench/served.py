"""`shusaku bench selfplay inference.placement=server`: many processes that play, and one that evaluates for them.

Without Ray: the server's own process, clients through shared memory.  What a GPU would be kept busy by is measured so,
and without a GPU what a simulated GPU would be.
"""

import math
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from typing import Any

import psutil

from shusaku.actors.evaluators.evaluator import Evaluator, MeasurableEvaluator
from shusaku.actors.evaluators.factory import evaluator_maker
from shusaku.actors.inference.client import RemoteEvaluator
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_server import SharedMemoryServer
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay
from shusaku.actors.self_play import ActorIdentity
from shusaku.common.config.schema import Config
from shusaku.common.leaves_codec import LeavesCodec
from shusaku.common.stage_timer import StageTimer, shares
from shusaku.deploy.bench.processes import collect_answers, put_answer
from shusaku.deploy.bench.raw_rate import raw_rate
from shusaku.deploy.cluster.layout import Layout, layout_of
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import choose_weights
from shusaku.deploy.run.composed_config import replace_settings

START_SECONDS = 300.0  # until every process is ready: a GPU compiles and captures
WARM_UP = 0.2  # of `bench.seconds`, before anything is counted
RAW = 0.2  # of `bench.seconds`, before and again after, for the network alone
ANSWER_SECONDS = 30.0  # after which a player gives the server up


def measure_served(config: Config) -> dict[str, Any]:
    """Sums over the processes that play; the network alone is measured by the server, before and after self-play."""
    config = replace_settings(config, inference=replace(config.inference, servers=1))
    layout = layout_of(config, [max(len(os.sched_getaffinity(0)), config.actors.count * config.actors.cpus)], math.inf)
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    barrier = context.Barrier(layout.actors + 1)
    addresses: Any = context.Queue()
    results: Any = context.Queue()
    told = (config, layout, barrier, addresses)
    answers = collect_answers([
        context.Process(target=put_answer, args=(results, _serve, *told)),
        *(context.Process(target=put_answer, args=(results, _play, *told, actor)) for actor in range(layout.actors)),
    ], results, START_SECONDS + 3 * config.bench.seconds)
    server = next(answer for answer in answers if "raw" in answer)
    players = [answer for answer in answers if "raw" not in answer]
    total = {name: sum(player[name] for player in players) for name in players[0]}
    known = total["cache_hits"] + total["evaluations"]
    return {
        "game": config.game.name,
        "actors": layout.actors,
        "games_per_actor": layout.games,
        "runtime": server["runtime"],
        "precision": server["precision"],
        "raw_evaluations_per_s": server["raw"],
        "evaluations_per_s": total["evaluations"],
        "of_raw": total["evaluations"] / server["raw"] if server["raw"] else None,
        "searches_per_s": total["searches"],
        "rows_per_s": total["rows"],
        "games_per_s": total["games"],
        "cache_hit_rate": total["cache_hits"] / known if known else 0.0,
        "busy_share": server["busy_share"],
        "rows_per_batch": server["rows_per_batch"],
        "wait_p99_ms": server["wait_p99_ms"],
        "time_shares": shares({}, total),
        "actor_mb": total["resident_mb"] / layout.actors,
    }


def _serve(config: Config, layout: Layout, barrier: Barrier, addresses: Any) -> dict[str, Any]:
    chosen = choose_weights(replace_settings(config, checkpoint=config.checkpoint or "random"))
    make = evaluator_maker(chosen.game, config.inference, chosen.network)
    made: dict[int, Evaluator] = {}

    def remembered(size: int) -> Evaluator:
        made[size] = make(size)
        return made[size]

    server = InferenceServer(chosen.game, remembered, sizes=layout.sizes, deadline_ms=config.inference.deadline_ms)
    server.load(with_scales(config.inference, chosen.game, chosen.network, chosen.weights))
    largest = made[max(made)]
    network: MeasurableEvaluator | None = largest if isinstance(largest, MeasurableEvaluator) else None
    seconds = config.bench.seconds

    def measure_raw() -> float:  # while the server's thread has nothing to do
        return raw_rate(network, seconds * RAW) if network else 0.0

    before = measure_raw()
    listener = SharedMemoryServer(server)
    for _ in range(layout.actors):
        addresses.put(listener.address)
    barrier.wait(START_SECONDS)
    time.sleep(seconds * WARM_UP)
    begin, first = time.perf_counter(), server.stats()
    time.sleep(seconds)
    spent, last = time.perf_counter() - begin, server.stats()
    description = server.description
    barrier.wait(START_SECONDS)
    listener.close()
    server.close()  # requests are under way to the last
    return {
        "raw": (before + measure_raw()) / 2, "runtime": description,
        "busy_share": (last.busy_seconds - first.busy_seconds) / spent,
        "rows_per_batch": (last.rows - first.rows) / max(1, last.batches - first.batches),
        "wait_p99_ms": last.wait_p99_ms,
        "precision": network.precision if network else "",
    }


def _play(config: Config, layout: Layout, barrier: Barrier, addresses: Any, actor: int) -> dict[str, Any]:
    chosen = choose_weights(replace_settings(config, checkpoint=config.checkpoint or "random"))
    codec, timer = LeavesCodec(chosen.game), StageTimer()
    transport = SharedMemoryTransport(
        addresses.get(timeout=START_SECONDS), actor, codec.max_bytes, deadline=ANSWER_SECONDS
    )
    evaluate = RemoteEvaluator(
        transport, actor, chosen.game, should_stop=lambda: transport.is_closed, timeout=2 * ANSWER_SECONDS
    )
    player = PipelinedSelfPlay(
        chosen.game, config.search, config.self_play, evaluate, games=layout.games, seed=config.run.seed + actor,
        identity=ActorIdentity(actor), timer=timer,
    )

    def counters() -> dict[str, int]:
        return {**player.counters(), **timer.counters()}

    barrier.wait(START_SECONDS)
    seconds = config.bench.seconds
    _step_until(player.step, time.perf_counter() + seconds * WARM_UP)
    before, begin = counters(), time.perf_counter()
    _step_until(player.step, begin + seconds)
    spent, after = time.perf_counter() - begin, counters()
    barrier.wait(START_SECONDS)
    rates = {name: (after[name] - before[name]) / spent for name in after}
    return {**rates, "resident_mb": psutil.Process().memory_info().rss / 1e6}


def _step_until(step: Callable[[], Any], end: float) -> None:
    while time.perf_counter() < end:
        step()
