"""What the inference server itself costs: processes that ask through shared memory, an evaluator that is free.

    python -m benchmarks.speed.inference_server [--game go] [--size 9] [--clients 16] [--positions 64] [--seconds 5]
        [--ways memory tcp tls ray]     # TCP, encrypted TCP and Ray's calls, too, by turns

Each client is a process that has two requests in flight, as an actor has, encodes its leaves for every request and
decodes every answer.  `server_us_per_request` is processor time of the server's process for one request: the wake-up,
checking, laying into a batch, the evaluator, rounding, the answer; with tls also the relay's.  A line of
benchmarks/results/inference_server.jsonl holds the runs of one call.
"""

import argparse
import json
import multiprocessing
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import ray

from benchmarks.lib import ROOT, record
from shusaku.actors.evaluators.dummies import UniformEvaluator
from shusaku.actors.inference.client import RemoteEvaluator
from shusaku.actors.inference.protocol import Transport
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_server import SharedMemoryServer
from shusaku.actors.inference.tcp_client import TcpTransport
from shusaku.actors.inference.tcp_handshake import TcpAddress
from shusaku.actors.inference.tcp_server import TcpServer
from shusaku.actors.inference.transport import Listeners, ServerTransport
from shusaku.common._core import Game, GameBatch
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.leaves_codec import LeavesCodec
from shusaku.common.messages import Leaves, Weights
from shusaku.common.search import search_options, self_play_options
from shusaku.common.tls.authority import RunAuthority
from shusaku.common.tls.relay import NAME as RELAY

FILE = "inference_server.jsonl"
CONTEXT = multiprocessing.get_context("spawn")
BATCH = 1024
WARM_UP_S = 1.0
POLL_S = 0.01
WAYS = ("memory", "tcp", "tls", "ray")


class Asked(NamedTuple):
    """What a client did."""

    calls: int
    latencies: list[float]  # seconds
    cpu: float  # its own processor time


def make_game(name: str, size: int) -> Game:
    return Game(name, {"size": size} if size else {})


def leaves_of(game: Game, positions: int) -> Leaves:
    """Openings of so many games."""
    options = search_options(PuctConfig(cache=0), symmetries=True)
    batch = GameBatch(game, options, positions, 1, self_play_options(SelfPlayConfig(random_plies=6)))
    return Leaves(*(np.array(column) for column in batch.select(0)))


def connect(client: int, address: Any, game: Game, positions: int) -> Transport:
    """By shared memory or TCP; the handle of an actor is called through Ray."""
    max_bytes = max(96_000, LeavesCodec(game).max_bytes)
    if isinstance(address, str):
        return SharedMemoryTransport(address, client, max_bytes, deadline=60.0)
    if isinstance(address, TcpAddress):
        return TcpTransport(address, client, max_bytes, deadline=60.0)
    transport = ServerTransport(client, game, [positions, positions])
    transport.attach([address])
    return transport


def ask(client: int, address: Any, name: str, size: int, positions: int, meeting: Path, seconds: float) -> Asked:
    """Asks until the time is over, once all clients have met in a directory."""
    game = make_game(name, size)
    leaves = leaves_of(game, positions)
    transport = connect(client, address, game, positions)
    evaluate = RemoteEvaluator(transport, client, game)
    (meeting / f"ready {client}").touch()
    while not (meeting / "begin").exists():
        time.sleep(POLL_S)
    calls, latencies, cpu, counts_from = 0, [], 0.0, time.monotonic() + WARM_UP_S
    end = counts_from + seconds
    begun = [0.0, 0.0]
    for index in range(2):
        begun[index] = time.monotonic()
        evaluate.begin(leaves)
    index, has_begun = 0, False
    while (now := time.monotonic()) < end:
        evaluate.finish()
        if has_begun:
            calls += 1
            if calls % 8 == 0:
                latencies.append(now - begun[index])
        elif now >= counts_from:
            has_begun, cpu = True, time.process_time()
        begun[index] = time.monotonic()
        evaluate.begin(leaves)
        index ^= 1
    if not isinstance(transport, ServerTransport):
        transport.close()  # type: ignore[attr-defined]
    return Asked(calls, latencies, time.process_time() - cpu)


class Served:
    """The server with its listeners; in this process, or as an actor of Ray."""

    def __init__(self, options: argparse.Namespace) -> None:
        game = make_game(options.game, options.size)
        self.server = InferenceServer(game, lambda size: UniformEvaluator(game, size), sizes=[BATCH],
                                      deadline_ms=options.deadline_ms)
        self.server.load(Weights(1, 0, {}, {}, game.name, game.params))
        self.memory, self.tcp = SharedMemoryServer(self.server), TcpServer(self.server, "127.0.0.1")
        self.tls = TcpServer(self.server, "127.0.0.1", certificate=RunAuthority().issue("inference-0"))
        relays = [child for child in psutil.Process().children() if child.name() == RELAY]
        self._relay = relays[0]

    def infer(self, client: int, payload: bytes) -> bytes:
        """A call through Ray."""
        return self.server.infer(client, payload, 60.0)

    def listeners(self) -> Listeners:
        """None: clients that ask call through Ray."""
        return Listeners("", "", None)

    def count(self) -> tuple[float, int, int]:
        """Processor time of this process and its relay, rows and batches up to now."""
        stats, relay = self.server.stats(), self._relay.cpu_times()
        return time.process_time() + relay.user + relay.system, stats.rows, stats.batches

    def close(self) -> None:
        """Ends every connection."""
        self.memory.close()
        self.tcp.close()
        self.tls.close()
        self.server.close()


def measure(way: str, options: argparse.Namespace) -> dict[str, float]:
    """One run."""
    with tempfile.TemporaryDirectory(prefix="shusaku-clients-") as folder:
        return measure_in(Path(folder), way, options)


def measure_in(meeting: Path, way: str, options: argparse.Namespace) -> dict[str, float]:
    """One run, whose clients meet in this directory."""
    common = options.game, options.size, options.positions, meeting, options.seconds
    if way == "ray":
        served = ray.remote(num_cpus=0, max_concurrency=4 * options.clients)(Served).remote(options)
        ray.get(served.count.remote())
        client_of = ray.remote(num_cpus=0)(ask)
        waiting = [client_of.remote(client, served, *common) for client in range(options.clients)]
        before, after = count_twice(lambda: ray.get(served.count.remote()), meeting, options)
        answers = ray.get(waiting)
        ray.kill(served)
    else:
        here = Served(options)
        address = {"memory": here.memory, "tcp": here.tcp, "tls": here.tls}[way].address
        with ProcessPoolExecutor(options.clients, CONTEXT) as pool:
            asked = [pool.submit(ask, client, address, *common) for client in range(options.clients)]
            before, after = count_twice(here.count, meeting, options)
            answers = [future.result() for future in asked]
        here.close()
    return summary(before, after, answers, options)


def count_twice(
    count: Callable[[], tuple[float, int, int]], meeting: Path, options: argparse.Namespace
) -> tuple[tuple[float, int, int], tuple[float, int, int]]:
    """At the beginning of what counts and at its end; begins when all clients are there."""
    while len(list(meeting.iterdir())) < options.clients:
        time.sleep(POLL_S)
    (meeting / "begin").touch()
    time.sleep(WARM_UP_S)
    before = count()
    time.sleep(options.seconds)
    return before, count()


def summary(
    before: tuple[float, int, int], after: tuple[float, int, int], answers: Sequence[Asked], options: argparse.Namespace
) -> dict[str, float]:
    """Rates and costs between two counts of the server."""
    cpu, rows, batches = (late - early for early, late in zip(before, after, strict=True))
    requests = rows / options.positions
    calls = sum(answer.calls for answer in answers)
    latencies = np.concatenate([answer.latencies for answer in answers])
    return {
        "positions_per_s": round(rows / options.seconds),
        "positions_per_batch": round(rows / max(1, batches), 1),
        "server_us_per_request": round(1e6 * cpu / requests, 1),
        "client_us_per_request": round(1e6 * sum(answer.cpu for answer in answers) / max(1, calls), 1),
        "p50_ms": round(1000 * float(np.percentile(latencies, 50)), 3),
        "p99_ms": round(1000 * float(np.percentile(latencies, 99)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="go")
    parser.add_argument("--size", type=int, default=9, help="of the board; 0: the game has one size")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--positions", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--deadline-ms", type=float, default=2.0)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["memory"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", action="store_true", help=f"append the runs to benchmarks/results/{FILE}")
    options = parser.parse_args()
    if "ray" in options.ways:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                 runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}})
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in options.ways}
    for _ in range(options.repeats):
        for way, of_way in runs.items():
            of_way.append(measure(way, options))
            print(way, json.dumps(of_way[-1]), flush=True)
    if options.record:
        command = shlex.join(["python", "-m", "benchmarks.speed.inference_server", *sys.argv[1:]])
        for way, of_way in runs.items():
            record(FILE, command, way=way, size=options.size, positions=options.positions, runs=of_way)


if __name__ == "__main__":
    main()
