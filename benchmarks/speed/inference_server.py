"""What the inference server itself costs: processes that ask through shared memory, an evaluator that is free.

    python -m benchmarks.speed.inference_server [--game go] [--size 9] [--clients 16] [--positions 64] [--seconds 5]

Each client is a process that has two requests in flight, as an actor has, encodes its leaves for every request and
decodes every answer.  `server_us_per_request` is processor time of the server's process for one request: the wake-up,
checking, laying into a batch, the evaluator, rounding, the answer.  A line of benchmarks/results/inference_server.jsonl
holds the runs of one call.
"""

import argparse
import json
import multiprocessing
import shlex
import sys
import time
from typing import Any

import numpy as np

from benchmarks.lib import record
from shusaku.actors.evaluators.dummies import UniformEvaluator
from shusaku.actors.inference.client import RemoteEvaluator
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_server import SharedMemoryServer
from shusaku.common._core import Game, GameBatch
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.leaves_codec import LeavesCodec
from shusaku.common.messages import Leaves, Weights
from shusaku.common.search import search_options, self_play_options

FILE = "inference_server.jsonl"
CONTEXT = multiprocessing.get_context("spawn")
BATCH = 1024
WARM_UP_S = 1.0


def make_game(name: str, size: int) -> Game:
    return Game(name, {"size": size} if size else {})


def leaves_of(game: Game, positions: int) -> Leaves:
    """Openings of so many games."""
    options = search_options(PuctConfig(cache=0), symmetries=True)
    batch = GameBatch(game, options, positions, 1, self_play_options(SelfPlayConfig(random_plies=6)))
    return Leaves(*(np.array(column) for column in batch.select(0)))


def ask(client: int, address: str, name: str, size: int, positions: int, begin: Any, seconds: float, sent: Any) -> None:
    """Asks until the time is over; sends requests, latencies and its own processor time."""
    game = make_game(name, size)
    leaves = leaves_of(game, positions)
    transport = SharedMemoryTransport(address, client, max(96_000, LeavesCodec(game).max_bytes), deadline=60.0)
    evaluate = RemoteEvaluator(transport, client, game)
    begin.wait()
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
    sent.put((calls, latencies, time.process_time() - cpu))
    transport.close()


def measure(options: argparse.Namespace) -> dict[str, float]:
    game = make_game(options.game, options.size)
    server = InferenceServer(game, lambda size: UniformEvaluator(game, size), sizes=[BATCH],
                             deadline_ms=options.deadline_ms)
    server.load(Weights(1, 0, {}, {}, game.name, game.params))
    listener = SharedMemoryServer(server)
    begin, sent = CONTEXT.Barrier(options.clients + 1), CONTEXT.Queue()
    processes = [CONTEXT.Process(target=ask, args=(
        client, listener.address, options.game, options.size, options.positions, begin, options.seconds, sent))
        for client in range(options.clients)]
    for process in processes:
        process.start()
    begin.wait()
    time.sleep(WARM_UP_S)
    cpu, before = time.process_time(), server.stats()
    time.sleep(options.seconds)
    cpu, after = time.process_time() - cpu, server.stats()
    answers = [sent.get() for _ in processes]
    for process in processes:
        process.join()
    listener.close()
    server.close()
    requests = (after.rows - before.rows) / options.positions
    calls = sum(answer[0] for answer in answers)
    latencies = np.concatenate([answer[1] for answer in answers])
    return {
        "positions_per_s": round((after.rows - before.rows) / options.seconds),
        "positions_per_batch": round((after.rows - before.rows) / max(1, after.batches - before.batches), 1),
        "server_us_per_request": round(1e6 * cpu / requests, 1),
        "client_us_per_request": round(1e6 * sum(answer[2] for answer in answers) / max(1, calls), 1),
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
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", action="store_true", help=f"append the runs to benchmarks/results/{FILE}")
    options = parser.parse_args()
    runs = []
    for _ in range(options.repeats):
        runs.append(measure(options))
        print(json.dumps(runs[-1]), flush=True)
    if options.record:
        record(FILE, shlex.join(["python", "-m", "benchmarks.speed.inference_server", *sys.argv[1:]]), runs=runs)


if __name__ == "__main__":
    main()
