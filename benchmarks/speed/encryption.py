"""What TLS costs a call of an actor to the run's own Redis: appending one game, by unix socket, TCP and TLS, by turns.

    python -m benchmarks.speed.encryption [--game connect_four] [--seconds 4] [--record]

`us_per_call` is what the client waits, `server_us_per_call` processor time of Redis and of the relay that decrypts,
`client_us_per_call` that of this process.  Calls to an inference server: benchmarks.speed.inference_server --ways tls.
"""

import argparse
import json
import shlex
import sys
import time

import psutil

from benchmarks.lib import record
from benchmarks.speed.redis_replay import Client, begun_server, prepared
from shusaku.common._core import Game
from shusaku.common.tls.authority import RunAuthority
from shusaku.common.tls.relay import NAME as RELAY

HOST = "127.0.0.1"
FILE = "encryption.jsonl"
WAYS = ("unix", "tcp", "tls")
GAMES = 512


def measure(way: str, game: Game, seconds: float) -> dict[str, float]:
    """One run against a server of its own."""
    certificate = RunAuthority().issue(HOST) if way == "tls" else None
    games = prepared(game, GAMES)
    with begun_server(100_000, HOST, certificate) as server:
        relays = [child.pid for child in psutil.Process().children() if child.name() == RELAY]
        servers = [psutil.Process(pid) for pid in (server.pid, *relays)]
        client = Client(server.url if way == "unix" else server.tcp_url, games)
        client.in_flight = 1
        client.append_for(0.5)
        client.times.clear()
        before, own, begin = _cpu(servers), time.process_time(), time.perf_counter()
        client.append_for(seconds)
        spent, calls = time.perf_counter() - begin, len(client.times)
        own, served = time.process_time() - own, _cpu(servers) - before
    return {"us_per_call": round(1e6 * spent / calls, 1), "server_us_per_call": round(1e6 * served / calls, 1),
            "client_us_per_call": round(1e6 * own / calls, 1),
            "bytes_per_game": round(sum(len(one.data) for one in games) / len(games))}


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", action="store_true", help=f"append the runs to benchmarks/results/{FILE}")
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(options.repeats):
        for way, of_way in runs.items():
            of_way.append(measure(way, Game(options.game), options.seconds))
            print(way, json.dumps(of_way[-1]), flush=True)
    if options.record:
        command = shlex.join(["python", "-m", "benchmarks.speed.encryption", *sys.argv[1:]])
        for way, of_way in runs.items():
            record(FILE, command, way=way, runs=of_way)


if __name__ == "__main__":
    main()
