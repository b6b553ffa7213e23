"""What a learner beside two actors costs them beyond the processor time that it takes.

    python -m benchmarks.cluster.interference [--seconds 60] [--rounds 2] [KEY=VALUE ...]

Two runs take turns, with the learner off and on, connect four, 64 filters x 5 blocks, batches of 256.  Positions are
learned from so seldom that the learner waits for rows now and then and the actors never pause.  With L the learner's
processor seconds a second on C cores,

    interference = 1 - (searches/s with the learner / searches/s without) / ((C - L) / C)

is what caches, memory and the scheduler take.  A network that learns makes the evaluation cache answer more, and so
more searches of the same work: `interference_of_evaluations` is the same of evaluations/s.  The last line is JSON.
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
from pathlib import Path
from typing import Any

import psutil

from benchmarks.cluster.status_command import status, wait_for_games
from benchmarks.lib import record

OVERRIDES = (
    "experiment=connect_four", "network.filters=64", "network.blocks=5", "learner.batch_size=256", "search=puct",
    "search.simulations=64", "replay.samples_per_position=1", "replay.minimum=2000", "strength.enabled=false",
    "cluster.dashboard=false",
)
FIGURES = {"interference": "searches_per_s", "interference_of_evaluations": "evaluations_per_s"}
SETTLE_SECONDS = 20.0  # after the first game and the first step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        alone = measure(options.seconds, [*options.overrides, "learner.enabled=false"])
        beside = measure(options.seconds, options.overrides)
        cores = len(os.sched_getaffinity(0))
        left = (cores - beside["learner_cpus"]) / cores
        rounds.append({"alone": alone, "beside": beside} | {
            name: 1 - beside[rate] / alone[rate] / left for name, rate in FIGURES.items()
        })
        print(rounds[-1], file=sys.stderr, flush=True)
    medians = {name: statistics.median(one[name] for one in rounds) for name in FIGURES}
    print(json.dumps({**medians, "rounds": rounds}))
    command = ["python -m benchmarks.cluster.interference", *options.overrides]
    record("interference.jsonl", " ".join(command), runs=rounds)


def measure(seconds: float, overrides: list[str]) -> dict[str, float]:
    """Searches a second and the learner's processor seconds a second, of one run."""
    with tempfile.TemporaryDirectory(prefix="interference-") as folder:
        run_dir = Path(folder) / "run"
        shusaku = [sys.executable, "-m", "shusaku"]
        command = [*shusaku, "train", *OVERRIDES, *overrides, f"run.dir={run_dir}", "run.minutes=600"]
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for_games(shusaku, run_dir, process)
            time.sleep(SETTLE_SECONDS)
            before = status(shusaku, run_dir)
            learner = learner_of(before)
            busy = cpu_seconds(learner)
            time.sleep(seconds)
            after = status(shusaku, run_dir)
            spent = after["time"] - before["time"]
            return {
                **{f"{name}_per_s": (after["totals"][name] - before["totals"][name]) / spent
                   for name in ("searches", "evaluations")},
                "learner_cpus": (cpu_seconds(learner) - busy) / spent,
                "steps_per_s": after["status"]["steps_per_second"],
            }
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def learner_of(state: dict[str, Any]) -> psutil.Process | None:
    pid = state["processes"].get("learner 0", {}).get("pid")
    return psutil.Process(pid) if pid else None


def cpu_seconds(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
