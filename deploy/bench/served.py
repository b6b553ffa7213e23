"""`shusaku bench selfplay inference.placement=server`: many processes that play, and one that evaluates for them.

Without Ray: the server's own process, clients through shared memory, or over TCP with `inference.listen=[tcp]` as those
of other hosts.  What a GPU would be kept busy by is measured so, and without a GPU what a simulated GPU would be.
"""

import os
import time
from dataclasses import replace
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

from shusaku.actors.evaluators.evaluator import LARGEST_BATCH, Evaluator, MeasurableEvaluator
from shusaku.actors.evaluators.factory import evaluator_maker
from shusaku.actors.inference.client import RemoteEvaluator
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_server import SharedMemoryServer
from shusaku.actors.inference.tcp_client import TcpTransport
from shusaku.actors.inference.tcp_handshake import TcpAddress
from shusaku.actors.inference.tcp_server import LOOPBACK, TcpServer
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay, group_games
from shusaku.actors.self_play import ActorIdentity
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.common.leaves_codec import LeavesCodec
from shusaku.common.stage_timer import StageTimer
from shusaku.deploy.bench.processes import CONTEXT, run_in_processes
from shusaku.deploy.bench.raw_rate import raw_rate
from shusaku.deploy.bench.self_play_rates import SelfPlayRates, result
from shusaku.deploy.cluster.layout import Layout, layout_of
from shusaku.deploy.cluster.room import Node
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import choose_weights
from shusaku.deploy.run.composed_config import replace_settings
from shusaku.deploy.run.devices import settle_here

START_SECONDS = 300.0  # until every process is ready: a GPU compiles and captures
WARM_UP = 0.2  # of `bench.seconds`, before anything is counted
RAW = 0.2  # of `bench.seconds`, before and again after, for the network alone
ANSWER_SECONDS = 30.0  # after which a player gives the server up


def measure_served(config: Config) -> dict[str, Any]:
    """Sums over the processes that play; the network alone is measured by the server, before and after self-play."""
    if not config.inference.listen:
        raise UsageError("inference.listen=[]: this bench runs without Ray, whose calls that leaves; "
                         "use inference.listen=[memory] or [tcp]")
    settled = settle_here(config, keeps_shares=True).inference
    inference = replace(settled, servers=1, gpus_per_server=min(1.0, settled.gpus_per_server))
    # Nothing learns, so no GPU is needed for it: `shusaku plan` has one for the learner where this server has none.
    learner = replace(config.learner, enabled=False, device="cpu", gpus=0.0)
    config = replace_settings(config, inference=inference, learner=learner,
                              checkpoint=config.checkpoint or "random")
    cpus = max(len(os.sched_getaffinity(0)), config.actors.count * config.actors.cpus)
    layout = layout_of(config, [Node("", cpus)], float(inference.is_on_gpu))
    barrier, addresses = CONTEXT.Barrier(layout.actors + 1), CONTEXT.Queue()
    shared = (config, layout, barrier, addresses)
    server, *rates = run_in_processes(
        [partial(_serve, *shared), *(partial(_play, *shared, actor) for actor in range(layout.actors))],
        START_SECONDS + 3 * config.bench.seconds,
    )
    return result(config, rates, layout.games, **server)


def _serve(config: Config, layout: Layout, barrier: Barrier, addresses: Any) -> dict[str, Any]:
    chosen = choose_weights(config)
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
    is_by_tcp = "memory" not in config.inference.listen
    listener = TcpServer(server, LOOPBACK) if is_by_tcp else SharedMemoryServer(server)
    for _ in range(layout.actors):
        addresses.put(listener.address)
    barrier.wait(START_SECONDS)
    time.sleep(seconds * WARM_UP)
    begun_at, begin, first = time.monotonic(), time.perf_counter(), server.stats()
    time.sleep(seconds)
    spent, last = time.perf_counter() - begin, server.stats()
    about = {"runtime": server.description, "precision": network.precision if network else ""}
    barrier.wait(START_SECONDS)
    listener.close()
    server.close()  # requests are under way to the last
    return {
        "raw": (before + measure_raw()) / 2, "network": about, "way": "tcp" if is_by_tcp else "memory",
        "busy_share": (last.busy_seconds - first.busy_seconds) / spent,
        "rows_per_batch": (last.rows - first.rows) / max(1, last.batches - first.batches),
        **_of_full_batches(config, (last.rows - first.rows) / spent),
        "wait_p99_ms": last.wait_p99_ms, "batch_p99_ms": last.batch_p99_ms,
        "begun_at": begun_at, "ended_at": begun_at + spent,  # of the monotonic clock, which all processes see
    }


def _of_full_batches(config: Config, rows_per_s: float) -> dict[str, float]:
    """Of a simulated GPU: what it evaluated, of what it would evaluate in full batches without a pause."""
    if config.inference.runtime != "simulated_gpu":
        return {}
    about = config.inference
    batch_s = about.simulated_gpu_batch_ms / 1e3 + LARGEST_BATCH * about.simulated_gpu_row_us / 1e6
    return {"of_full_batches": rows_per_s * batch_s / LARGEST_BATCH}


def _play(config: Config, layout: Layout, barrier: Barrier, addresses: Any, actor: int) -> dict[str, Any]:
    chosen = choose_weights(config)
    timer, groups = StageTimer(), group_games(layout.games)
    size = LeavesCodec(chosen.game).rules.size(groups[0], groups[0] * chosen.game.max_legal_actions)
    address = addresses.get(timeout=START_SECONDS)
    connect = TcpTransport if isinstance(address, TcpAddress) else SharedMemoryTransport
    transport = connect(address, actor, size, deadline=ANSWER_SECONDS, slots=len(groups))
    evaluate = RemoteEvaluator(transport, actor, chosen.game, should_stop=lambda: transport.is_closed,
                               timeout=2 * ANSWER_SECONDS)
    player = PipelinedSelfPlay(
        chosen.game, config.search, config.self_play, evaluate, games=layout.games, seed=config.run.seed + actor,
        identity=ActorIdentity(actor), timer=timer,
    )
    rates, seconds = SelfPlayRates(player, timer), config.bench.seconds
    barrier.wait(START_SECONDS)
    rates.play(seconds * WARM_UP, is_measured=False)
    rates.play(seconds)
    barrier.wait(START_SECONDS)
    return rates.to_json()
