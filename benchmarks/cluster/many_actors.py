"""Many small actors against one inference server and one Redis: what the wiring itself carries, by each way to it.

    python -m benchmarks.cluster.many_actors [--actors 1 4 16 64] [--ways memory tcp ray] [--minutes 1] [--record]
        [KEY=VALUE ...]

Pseudo-random evaluators and tic-tac-toe, so that neither network nor search is in the way.  Each row is a run of its
own in a temporary directory.  `cores_of_…` are processor seconds a second of one kind of process: the actors together,
the server, Redis, the driver, and Ray's own.  Memory is the PSS of all of them in megabytes, by tenths of the time:
`--actors 64 --ways memory --minutes 20` shows whether it stays flat.

Whether so many actors could keep a GPU busy, one that takes 10 ms for a batch:

    python -m benchmarks.cluster.many_actors --actors 16 --minutes 2 inference.runtime=simulated_gpu
"""

import argparse
import json
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgpack
import psutil

from benchmarks.lib import record
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import server_url

FILE = "many_actors.jsonl"
OVERRIDES = (
    "experiment=tic_tac_toe", "search=puct", "search.noise=false", "search.simulations=8", "search.cache=0",
    "actors.cpus=0.02", "actors.games_per_actor=32", "inference.placement=server", "inference.runtime=pseudo_random",
    "learner.enabled=false", "strength.enabled=false", "cluster.dashboard=false",
)
LISTEN = {"memory": "[memory]", "tcp": "[tcp]", "ray": "[]"}  # a way to the server -> inference.listen
SETTLE_SECONDS = 15.0  # after all actors play, before anything is counted
START_SECONDS = 900.0  # that all actors may take to finish a game each
SAMPLE_SECONDS = 5.0
MEMORY_SECONDS = 30.0  # between two looks at the memory, which cost several milliseconds a process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--ways", nargs="+", choices=tuple(LISTEN), default=list(LISTEN))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--record", action="store_true", help=f"append each row to benchmarks/results/{FILE}")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the run")
    options = parser.parse_intermixed_args()
    for way in options.ways:
        for actors in options.actors:
            row = measure(actors, way, options.minutes, options.overrides)
            print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
            if options.record:
                command = ["python", "-m", "benchmarks.cluster.many_actors", "--actors", str(actors), "--ways", way,
                           "--minutes", f"{options.minutes:g}", "--record", *options.overrides]
                record(FILE, shlex.join(command), actors=actors, way=way, minutes=options.minutes, runs=[row])


def measure(actors: int, way: str, minutes: float, overrides: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="many-actors-") as folder:
        run_dir = Path(folder) / "run"
        command = [sys.executable, "-m", "shusaku", "train", *OVERRIDES, f"inference.listen={LISTEN[way]}",
                   f"actors.count={actors}", f"run.dir={run_dir}", "run.minutes=600", *overrides]
        begin = time.monotonic()
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        run = Run(run_dir, process)
        try:
            run.wait_until_all_play(actors)
            playing = time.monotonic() - begin
            time.sleep(SETTLE_SECONDS)
            return {"playing_s": round(playing, 1), **run.watch(60 * minutes)}
        except RuntimeError:
            print((Path(folder) / "log").read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


class Run:
    """A run that plays, as its Redis and the system show it: no command of ours is started beside it."""

    def __init__(self, run_dir: Path, process: subprocess.Popen[bytes]) -> None:
        self._run_dir, self._process = run_dir, process

    def wait_until_all_play(self, actors: int) -> None:
        """Until each of them has finished a game; RuntimeError if that never comes."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._players() == actors:
                return
            time.sleep(1)
        raise RuntimeError(f"{self._players()} of {actors} actors play; exit code {self._process.poll()}")

    def watch(self, seconds: float) -> dict[str, Any]:
        begin, before, used = time.monotonic(), self.status(), self._processor_seconds()
        samples, memory = [], []
        while time.monotonic() - begin < seconds:
            time.sleep(SAMPLE_SECONDS)
            samples.append(self.status())
            if time.monotonic() - begin >= MEMORY_SECONDS * len(memory):
                memory.append(pss(self._family()))
        spent = samples[-1]["time"] - before["time"]
        elapsed, now = time.monotonic() - begin, self._processor_seconds()
        served = [sample["inference"] for sample in samples]
        by_tenth = [round(statistics.median(part)) for part in tenths(memory)]
        return {
            "positions_per_s": round(statistics.median(s["rows_per_s"] for s in served)),
            "rows_per_batch": round(statistics.median(s["rows_per_batch"] for s in served), 1),
            "call_p50_ms": round(statistics.median(s["call_p50_ms"] for s in served), 2),
            "call_p99_ms": round(statistics.median(s["call_p99_ms"] for s in served), 2),
            "worst_call_p99_ms": round(max(s["call_p99_ms"] for s in served), 1),
            "games_per_s": round((samples[-1]["status"]["games"] - before["status"]["games"]) / spent, 1),
            **{f"cores_of_{kind}": round((now[kind] - used[kind]) / elapsed, 3) for kind in now},
            "restarts": sum(facts["incarnation"] for facts in samples[-1]["processes"].values()),
            "runtimes": samples[-1]["status"]["runtimes"],
            "pss_first": by_tenth[0], "pss_last": by_tenth[-1], "pss_by_tenth": by_tenth,
        }

    def status(self) -> dict[str, Any]:
        control = self._control()
        try:
            return dict(json.loads(control.status()))
        finally:
            control.close()

    def _players(self) -> int:
        """Actors that have finished a game."""
        if not server_url(self._run_dir / "redis") or RunIdentity.find(self._run_dir) is None:
            return 0
        control = self._control()
        try:
            metrics = [sent.metrics for sent in control.actor_metrics().values()]
        except ReplayUnavailable:
            return 0
        finally:
            control.close()
        return sum(msgpack.unpackb(data).get("games", 0) > 0 for data in metrics if data)

    def _control(self) -> RedisControl:
        return RedisControl(server_url(self._run_dir / "redis"), RunIdentity.of(self._run_dir).run_id)

    def _family(self) -> list[psutil.Process]:
        """The driver and all its descendants, Ray's daemons, too."""
        driver = psutil.Process(self._process.pid)
        return [driver, *driver.children(recursive=True)]

    def _processor_seconds(self) -> Counter[str]:
        """Of the run's processes since each began, by kind."""
        kinds = {}
        for name, facts in self.status()["processes"].items():
            kind = {"self_play": "actors", "inference": "server", "replay": "redis"}.get(name.split()[0])
            if kind is not None:
                kinds[facts["pid"]] = kind
        total: Counter[str] = Counter(dict.fromkeys(("actors", "server", "redis", "driver", "ray"), 0))
        for process in self._family():
            try:
                times, is_driver = process.cpu_times(), "train" in process.cmdline()
            except psutil.Error:
                continue
            total[kinds.get(process.pid, "driver" if is_driver else "ray")] += times.user + times.system
        return total


def tenths(values: list[float]) -> list[list[float]]:
    parts = [values[len(values) * i // 10 : len(values) * (i + 1) // 10] for i in range(10)]
    return [part for part in parts if part]


def pss(processes: Iterable[psutil.Process]) -> float:
    """Megabytes, of which those that several share count once."""
    total = 0.0
    for process in processes:
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024
    return total


if __name__ == "__main__":
    main()
