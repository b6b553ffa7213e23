"""Rows a second through Redis: appended by one client, ingested by a learner with validation, sampled.

    python -m benchmarks.speed.redis_replay [--game connect_four] [--seconds 5] [--capacity 500000] [--json]

The server is an embedded one, with its append-only file, over the unix socket.  The client sends prepared records of
self-play, 16 games a call and one call at a time, so at most 16 are in flight; the window is full for most of the
time, so evicting is measured too.  Then a learner reads the whole window, first alone and then while the client goes
on appending.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.lib import record
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import ReplayConfig, SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.tls.authority import Certificate
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.buffer import RedisBuffer
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer

RUN = "benchmark"
IN_FLIGHT = 16  # games
BATCH = 256


def prepared(game: Game, games: int) -> list[EncodedGame]:
    player = SelfPlay(
        game, PuctConfig(simulations=8, cache=0), SelfPlayConfig(), PseudoRandomEvaluator(game, 64), games=64,
        seed=1, identity=ActorIdentity(0),
    )
    found: list[EncodedGame] = []
    while len(found) < games:
        found += [EncodedGame.of(record) for record in player.step()]
    return found[:games]


class Client:
    """Appends the same games again and again, under new numbers."""

    def __init__(self, url: str, games: list[EncodedGame]) -> None:
        self.appender = Appender(url, RUN, actor=0, epoch=0, incarnation=0)
        self.games, self.sequence, self.rows, self.in_flight = games, 0, 0, IN_FLIGHT
        self.times: list[float] = []  # of the calls, seconds

    def append_for(self, seconds: float) -> float:
        """Rows a second."""
        before, begin = self.rows, time.perf_counter()
        while (spent := time.perf_counter() - begin) < seconds:
            first = self.sequence % len(self.games)
            batch = [
                EncodedGame(self.sequence + k, game.rows, game.data)
                for k, game in enumerate(self.games[first : first + self.in_flight])
            ]
            called = time.perf_counter()
            reply = self.appender.append(batch)
            self.times.append(time.perf_counter() - called)
            assert reply.appended == len(batch)
            self.sequence += len(batch)
            self.rows += sum(game.rows for game in batch)
        return (self.rows - before) / spent


def ingest(buffer: RedisBuffer, rows: int, deadline: float) -> float:
    """Rows a second until `rows` are in, or the time is over."""
    before, begin = buffer.stats().inserted, time.perf_counter()
    while (spent := time.perf_counter() - begin) < deadline and buffer.stats().inserted - before < rows:
        threading.Event().wait(0.01)
    return (buffer.stats().inserted - before) / spent


def sample(buffer: RedisBuffer, seconds: float) -> float:
    sampled, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < seconds:
        batch = buffer.sample(BATCH, sampled)
        assert batch is not None
        sampled += len(batch)
    return sampled / spent


@contextmanager
def begun_server(capacity: int, bind: str = "", certificate: Certificate | None = None) -> Iterator[EmbeddedServer]:
    """A server of its own, in which the run has begun; `capacity`: rows."""
    with tempfile.TemporaryDirectory() as directory:
        server = EmbeddedServer(Path(directory), max_megabytes=4096, bind=bind, certificate=certificate)
        server.start()
        try:
            RedisControl(server.url, RUN).begin(0, capacity=capacity, max_bytes=4 << 30, actors=0)
            yield server
        finally:
            server.stop()


def measure(game: Game, seconds: float, capacity: int) -> dict[str, float]:
    games = prepared(game, 4096)
    with begun_server(capacity) as server:
        client = Client(server.url, games)
        appended = client.append_for(seconds)
        call_p99 = float(np.percentile(client.times, 99))
        config = ReplayConfig(capacity=capacity, minimum=min(10_000, capacity // 2), window="fixed")
        buffer = RedisBuffer(game, config, url=server.url, run_id=RUN, batch_size=BATCH, limited=False)
        ingested = ingest(buffer, min(capacity, client.rows) * 9 // 10, 60.0)
        together = threading.Thread(target=client.append_for, args=(seconds,))
        together.start()
        ingested_beside = ingest(buffer, 1 << 60, seconds)
        together.join()
        quarantined = sum(buffer.stats().quarantined.values())
        buffer.close()
        sampled = sample(buffer, min(seconds, 2.0))
        info = connect(server.url).info("memory")
        counters = RedisControl(server.url, RUN).counters()
    assert quarantined == 0, quarantined
    return {
        "appended_per_s": appended, "append_call_p99_ms": 1e3 * call_p99, "ingested_per_s": ingested,
        "ingested_beside_appending_per_s": ingested_beside, "sampled_per_s": sampled,
        "rows_per_game": float(np.mean([game.rows for game in games])),
        "record_bytes_per_row": counters["bytes"] / (counters["inserted"] - counters["deleted"]),
        "server_bytes_per_row": info["used_memory"] / (counters["inserted"] - counters["deleted"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--capacity", type=int, default=500_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {"game": options.game, **measure(Game(options.game), options.seconds, options.capacity)}
    for name, value in figures.items():
        print(f"{name:32} {value if isinstance(value, str) else f'{value:,.4g}' if value < 100 else f'{value:,.0f}'}")
    if options.json:
        print(json.dumps(figures))
    record("redis_replay.jsonl", f"python -m benchmarks.speed.redis_replay --game {options.game}", runs=[figures])


if __name__ == "__main__":
    main()
