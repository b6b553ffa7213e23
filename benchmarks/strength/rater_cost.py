"""What the rater costs self-play: searches/s of one `shusaku train`, in turn while it rates and while it does not.

    python -m benchmarks.strength.rater_cost [--pairs 10] [--seconds 30] [--no-record] [overrides …]

The run learns for --warm-up seconds, until versions were rated.  In one of the two windows of each pair the process of
the evaluator is stopped by a signal; which one comes first changes from pair to pair.  The driver would take a process
that does not answer for dead, so a stopped one is woken every 10 s for a fifth of a second.  The rate of a window is
the slope of the counted searches over time.  The cost is 1 - the median ratio of the pairs.
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

import numpy as np

from benchmarks.lib import ROOT, record
from shusaku.actors.arena.rating_log import RATINGS
from shusaku.common.json_lines import read_json_lines
from shusaku.deploy.run.control_client import ControlClient, ControlUnavailable

SETTLE_SECONDS = 3.0  # at the begin of a window, for what the actors counted before it
ASLEEP_SECONDS, AWAKE_SECONDS = 10.0, 0.2
POLL_SECONDS = 0.5
START_SECONDS = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each window")
    parser.add_argument("--warm-up", type=float, default=60.0)
    parser.add_argument("--no-record", action="store_true", help="only print")
    parser.add_argument("overrides", nargs="*", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        process = subprocess.Popen(
            [sys.executable, "-m", "shusaku", "train", f"run.dir={run}", "run.minutes=600", "strength.enabled=false",
             *options.overrides], cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            measured = measure(run, process, options)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
    print(f"the rater costs {measured['cost']:.1%} (median of {options.pairs} pairs)")
    if not options.no_record:
        record("rater_cost.jsonl", " ".join(["python -m benchmarks.strength.rater_cost", *sys.argv[1:]]), **measured)


def measure(run: Path, process: "subprocess.Popen[bytes]", options: argparse.Namespace) -> dict[str, object]:
    """The cost, the ratio of each pair, and how many games were rated in the windows with and without the rater."""
    client = connect(run, process)
    time.sleep(options.warm_up)
    while not games_rated(run):
        if process.poll() is not None:
            raise SystemExit(f"the run ended with exit code {process.returncode} before a version was rated")
        time.sleep(1.0)
    ratios, games = [], {True: 0, False: 0}
    for pair in range(options.pairs):
        rates = {}
        for is_rating in (pair % 2 == 0, pair % 2 != 0):
            before = games_rated(run)
            rates[is_rating] = searches_per_second(client, options.seconds, is_rating)
            games[is_rating] += games_rated(run) - before
        ratios.append(rates[True] / rates[False])
        print(f"pair {pair}: with the rater {rates[True]:,.0f} searches/s, without {rates[False]:,.0f}: "
              f"{ratios[-1]:.3f}", flush=True)
    print(f"games that were rated in windows with it: {games[True]}, without it: {games[False]}")
    return {"cost": round(1 - statistics.median(ratios), 4), "seconds": options.seconds,
            "ratios": [round(ratio, 4) for ratio in ratios], "games_with": games[True], "games_without": games[False]}


def connect(run: Path, process: "subprocess.Popen[bytes]") -> ControlClient:
    """To the driver, once its workers are there."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        client = ControlClient.of(run)
        if client is not None and status_of(client).get("processes", {}).get("evaluator 0", {}).get("pid"):
            return client
        time.sleep(1.0)
    raise SystemExit(f"the run has no evaluator after {START_SECONDS:g} s")


def status_of(client: ControlClient) -> dict[str, dict[str, dict[str, int]]]:
    status: dict[str, dict[str, dict[str, int]]] = json.loads(client.status() or b"{}")
    return status


def games_rated(run: Path) -> int:
    return sum(len(pair) for line in read_json_lines(run / RATINGS) for pair in line["points"])


def searches_per_second(client: ControlClient, seconds: float, is_rating: bool) -> float:
    """Of self-play, in a window of so many seconds after a pause; `is_rating`: whether the evaluator works in it."""
    begin, samples = time.monotonic(), []
    evaluator = int(status_of(client)["processes"]["evaluator 0"]["pid"])
    next_nap = begin
    try:
        while (now := time.monotonic() - begin) < SETTLE_SECONDS + seconds:
            if not is_rating and begin + now >= next_nap:
                os.kill(evaluator, signal.SIGCONT)
                time.sleep(AWAKE_SECONDS)
                os.kill(evaluator, signal.SIGSTOP)
                next_nap = time.monotonic() + ASLEEP_SECONDS
            time.sleep(POLL_SECONDS)
            try:
                totals = json.loads(client.status())["totals"]
            except ControlUnavailable:
                continue
            if now >= SETTLE_SECONDS:
                samples.append((time.monotonic() - begin, totals["searches"]))
    finally:
        os.kill(evaluator, signal.SIGCONT)
    times, counts = np.array(samples, np.float64).T
    return float(np.polyfit(times, counts, 1)[0])


if __name__ == "__main__":
    main()
