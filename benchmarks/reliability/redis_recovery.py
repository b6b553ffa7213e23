"""How long a window of 2 GB is away after its Redis server was killed.

    python -m benchmarks.reliability.redis_recovery [--gigabytes 2] [--repeats 3]

An embedded server, with its append-only file in the folder for temporary files, is filled by one client with games of
Go 9x9 and then killed (SIGKILL); the time is that from the kill until it answers again with all its games, started as
the driver starts it.  A plain read of the file, in the same run, is the limit beside it.  A driver notices a dead
server within a second, which is not in the figure.
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.lib import record
from benchmarks.speed.redis_replay import RUN, Client, prepared
from shusaku.common._core import Game
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer

BOUND_SECONDS = 20.0
HELD_BACK_SECONDS = 5.0  # in which actors send again what a server whose disk is behind has not written yet: server.py


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measured = measure(Path(directory), options.gigabytes, options.repeats)
    print(json.dumps(measured))
    record("redis_recovery.jsonl", f"python -m benchmarks.reliability.redis_recovery --gigabytes "
           f"{options.gigabytes:g} --repeats {options.repeats}", **measured)
    if measured["recovery_s"] > BOUND_SECONDS:
        raise SystemExit(f"the median is {measured['recovery_s']:.1f} s, and {BOUND_SECONDS:.0f} s are allowed")


def measure(directory: Path, gigabytes: float, repeats: int) -> dict[str, float | list[dict[str, float]]]:
    server = EmbeddedServer(directory, max_megabytes=int(2048 * gigabytes))
    server.start()
    try:
        RedisControl(server.url, RUN).begin(0, capacity=1 << 40, max_bytes=1 << 40, actors=0)
        client = Client(server.url, prepared(Game("go", {"size": 9}), 4096))
        while connect(server.url).info("memory")["used_memory"] < gigabytes * 2**30:
            client.append_for(1.0)
        runs = []
        time.sleep(HELD_BACK_SECONDS)
        for _ in range(repeats):
            games = RedisControl(server.url, RUN).counters()["games"]
            begin = time.perf_counter()
            os.kill(server.pid, signal.SIGKILL)
            while server.is_alive():
                time.sleep(0.001)
            server.start()
            seconds = time.perf_counter() - begin
            assert RedisControl(server.url, RUN).counters()["games"] == games, "every acknowledged game is there"
            begin = time.perf_counter()
            size = sum(len(path.read_bytes()) for path in directory.rglob("*.aof"))
            runs.append({"recovery_s": round(seconds, 2), "read_s": round(time.perf_counter() - begin, 2)})
    finally:
        server.stop(60.0)
    assert games == client.sequence
    return {"recovery_s": statistics.median(run["recovery_s"] for run in runs),
            "games": games, "file_gb": round(size / 1e9, 2), "runs": runs}


if __name__ == "__main__":
    main()
