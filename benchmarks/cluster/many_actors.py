"""Many small actors against one inference server and one Redis: what the wiring itself carries.

    python -m benchmarks.cluster.many_actors [--actors 1,2,4,8,16] [--minutes 1] [--last-minutes 10] [KEY=VALUE ...]

Pseudo-random evaluators and tic-tac-toe, so that neither network nor search is in the way.  Each row is a run of its
own in a temporary directory; the last one lasts longer, to show that memory stays flat.  Memory is the PSS of all
processes of the run, Ray's own included, in megabytes.

Whether so many actors could keep a GPU busy, one that takes 10 ms for a batch:

    python -m benchmarks.cluster.many_actors --actors 16 --last-minutes 2 inference.runtime=simulated_gpu
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.lib import record

OVERRIDES = (
    "experiment=tic_tac_toe", "search=puct", "search.noise=false", "search.simulations=8", "search.cache=0",
    "actors.cpus=0.1", "actors.games_per_actor=32", "inference.placement=server", "inference.runtime=pseudo_random",
    "learner.enabled=false", "strength.enabled=false", "cluster.dashboard=false",
)
SETTLE_SECONDS = 15.0  # after the first game, before anything is counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", default="1,2,4,8,16")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--last-minutes", type=float, default=10.0)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the run")
    options = parser.parse_args()
    counts = [int(text) for text in options.actors.split(",")]
    for count in counts:
        minutes = options.last_minutes if count == counts[-1] else options.minutes
        row = measure(count, minutes, options.overrides)
        print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
        command = f"python -m benchmarks.cluster.many_actors --actors {count}"
        record("many_actors.jsonl", " ".join([command, *options.overrides]),
               name=f"{count} actors, {minutes:g} minutes", runs=[row])


def measure(actors: int, minutes: float, overrides: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="many-actors-") as folder:
        run_dir = Path(folder) / "run"
        shusaku = [sys.executable, "-m", "shusaku"]
        command = [*shusaku, "train", *OVERRIDES, f"actors.count={actors}", f"run.dir={run_dir}", "run.minutes=600",
                   *overrides]
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            first = wait_for_games(shusaku, run_dir, process)
            time.sleep(SETTLE_SECONDS)
            begin, samples, memory = time.monotonic(), [], []
            before = status(shusaku, run_dir)
            while time.monotonic() - begin < 60 * minutes:
                time.sleep(5)
                samples.append(status(shusaku, run_dir))
                memory.append(pss(process.pid))
            spent = samples[-1]["time"] - before["time"]
            served = [sample["inference"] for sample in samples]
            by_tenth = [round(statistics.median(part)) for part in tenths(memory)]
            return {
                "actors": actors,
                "positions_per_s": round(statistics.median(s["rows_per_s"] for s in served)),
                "rows_per_batch": round(statistics.median(s["rows_per_batch"] for s in served), 1),
                "call_p50_ms": round(statistics.median(s["call_p50_ms"] for s in served), 1),
                "call_p99_ms": round(statistics.median(s["call_p99_ms"] for s in served), 1),
                "worst_call_p99_ms": round(max(s["call_p99_ms"] for s in served), 1),
                "idle_share": round(statistics.median(s["idle_share"] for s in served), 3),
                "runtimes": samples[-1]["status"]["runtimes"],
                "games_per_s": round((samples[-1]["status"]["games"] - before["status"]["games"]) / spent, 1),
                "pss_first": by_tenth[0],
                "pss_last": by_tenth[-1],
                "pss_by_tenth": by_tenth,
                "first_game_s": first,
                "minutes": minutes,
            }
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def tenths(values: list[float]) -> list[list[float]]:
    parts = [values[len(values) * i // 10 : len(values) * (i + 1) // 10] for i in range(10)]
    return [part for part in parts if part]


def wait_for_games(shusaku: Sequence[str], run_dir: Path, process: subprocess.Popen[bytes]) -> float:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        state = status(shusaku, run_dir)
        if state and state["first_game_seconds"]:
            return float(state["first_game_seconds"])
        time.sleep(1)
    raise RuntimeError(f"no game was finished; exit code {process.poll()}")


def status(shusaku: Sequence[str], run_dir: Path) -> dict[str, Any]:
    done = subprocess.run([*shusaku, "status", f"run.dir={run_dir}", "--json"], capture_output=True, text=True,
                          check=False, env={**os.environ})
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else {}


def pss(pid: int) -> float:
    """Of the process and all its descendants, and of Ray's daemons, which are in sessions of their own."""
    total = 0.0
    parent = psutil.Process(pid)
    for process in [parent, *parent.children(recursive=True)]:
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024
    return total


if __name__ == "__main__":
    main()
