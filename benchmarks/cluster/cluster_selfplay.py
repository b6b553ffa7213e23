"""Self-play through Ray and Redis beside plain processes, in one run: searches/s with the learner off.

    python -m benchmarks.cluster.cluster_selfplay [--repeats 3] [--seconds 40] [OVERRIDES ...]

Each repeat measures `bench selfplay`, `train learner.enabled=false`, and `bench selfplay` again; its ratio is against
the mean of the two.  Rates are differences of counters over `--seconds`, after a warm-up of 8 s.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster.status_command import status, wait_for_games
from benchmarks.lib import record

WARM_UP_SECONDS = 8.0
SHUSAKU = [sys.executable, "-m", "shusaku"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    ratios = []
    for _ in range(options.repeats):
        before = plain(options.overrides)
        cluster = through_ray(options.overrides, options.seconds)
        after = plain(options.overrides)
        ratios.append(cluster / ((before + after) / 2))
        print(f"bench selfplay {before:.0f} and {after:.0f} searches/s, train {cluster:.0f}: {ratios[-1]:.1%}",
              flush=True)
    print(json.dumps({"ratio": statistics.median(ratios), "ratios": ratios}))
    record("cluster_selfplay.jsonl", " ".join(["python -m benchmarks.cluster.cluster_selfplay", *options.overrides]),
           runs=[{"ratio": ratio} for ratio in ratios])


def plain(overrides: Sequence[str], seconds: float = 15.0, shusaku: Sequence[str] = SHUSAKU) -> float:
    done = subprocess.run([*shusaku, "bench", "selfplay", f"bench.seconds={seconds}", *overrides, "--json"],
                          capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["searches_per_s"])


def through_ray(overrides: Sequence[str], seconds: float, shusaku: Sequence[str] = SHUSAKU) -> float:
    with tempfile.TemporaryDirectory(prefix="cluster-selfplay-") as folder:
        run_dir = Path(folder) / "run"
        command = [*shusaku, "train", "learner.enabled=false", "strength.enabled=false", f"run.dir={run_dir}",
                   "run.minutes=600", *overrides]
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for_games(shusaku, run_dir, process)
            time.sleep(WARM_UP_SECONDS)
            before = _searches(shusaku, run_dir)
            time.sleep(seconds)
            after = _searches(shusaku, run_dir)
            return float((after["searches"] - before["searches"]) / (after["time"] - before["time"]))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _searches(shusaku: Sequence[str], run_dir: Path) -> dict[str, Any]:
    state = status(shusaku, run_dir)
    return {"searches": state["totals"]["searches"], "time": state["time"]}


if __name__ == "__main__":
    main()
