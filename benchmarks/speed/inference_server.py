"""What the Python part of the inference server costs: client threads in one process, an evaluator that is nearly free.

    python -m benchmarks.speed.inference_server --clients 16 --positions 64 --seconds 5

`cpu_us_per_call` is processor time of the whole process for one call of infer(): decoding, queueing, laying into a
batch, the hash that stands for the network, rounding, encoding and the switches between threads.
"""

import argparse
import json
import threading
import time

import numpy as np

from benchmarks.lib import record
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.inference.server import InferenceServer
from shusaku.common._core import Game, GameBatch
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.leaves_codec import LeavesCodec
from shusaku.common.messages import Leaves, Weights
from shusaku.common.search import search_options, self_play_options


def request_of(game: Game, positions: int) -> bytes:
    """Openings of so many games, as a request."""
    options = search_options(PuctConfig(cache=0), symmetries=True)
    batch = GameBatch(game, options, positions, 1, self_play_options(SelfPlayConfig(random_plies=6)))
    return LeavesCodec(game).encode(Leaves(*batch.select(0)))


def measure(game: Game, clients: int, positions: int, seconds: float, deadline_ms: float) -> dict[str, float]:
    sizes = [size for size in (8, 16, 32, 64, 128, 256, 512) if size < 2 * positions * clients]
    server = InferenceServer(
        game, lambda size: PseudoRandomEvaluator(game, size), sizes=sizes, deadline_ms=deadline_ms
    )
    server.load(Weights(1, 0, {}, {}, game.name, game.params))
    payload = request_of(game, positions)
    end = time.monotonic() + seconds
    latencies: list[list[float]] = [[] for _ in range(clients)]

    def run(client: int) -> None:
        while (begin := time.perf_counter()) and time.monotonic() < end:
            server.infer(client, payload, 10.0)
            latencies[client].append(time.perf_counter() - begin)

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    cpu, begin = time.process_time(), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu, elapsed = time.process_time() - cpu, time.monotonic() - begin
    stats = server.stats()
    server.close()
    calls = np.concatenate(latencies)
    return {
        "clients": clients, "positions": positions, "bytes": len(payload),
        "calls_per_s": round(len(calls) / elapsed), "positions_per_s": round(stats.rows / elapsed),
        "positions_per_batch": round(stats.rows / max(1, stats.batches), 1),
        "p50_ms": round(1000 * float(np.percentile(calls, 50)), 3),
        "p99_ms": round(1000 * float(np.percentile(calls, 99)), 3),
        "cpu_us_per_call": round(1e6 * cpu / len(calls), 1), "idle_share": round(stats.idle_share, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--positions", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--deadline-ms", type=float, default=2.0)
    options = parser.parse_args()
    game = Game(options.game)
    for clients in options.clients:
        measured = measure(game, clients, options.positions, options.seconds, options.deadline_ms)
        print(json.dumps(measured), flush=True)
        record("inference_server.jsonl", "python -m benchmarks.speed.inference_server", runs=[measured])


if __name__ == "__main__":
    main()
